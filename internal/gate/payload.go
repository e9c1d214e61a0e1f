package gate

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fencegate/fencegate/internal/statement"
)

// maxPayload bounds what is recorded of the values of one write, in bytes.
const maxPayload = 64 << 10

// redacted stands for a value that is not to be recorded.
const redacted = `"[redacted]"`

// toWrite is what one mutation was to write, as it is recorded.
type toWrite struct {
	Operation int              `json:"operation"`
	Table     string           `json:"table"`
	Rows      []jsontext.Value `json:"rows,omitempty"`
	Increment jsontext.Value   `json:"increment,omitempty"`
	LeftOut   int              `json:"rows_left_out,omitzero"` // past maxPayload
}

// payload is what w was to write to tables that are configured to have it
// recorded, "" if there is nothing of the kind.
func (w Write) payload() (string, error) {
	var all []toWrite
	room := maxPayload
	for i, m := range w.Mutations {
		if m.Table == nil || !m.Table.RecordPayload || len(m.Rows) == 0 && m.Increment == nil {
			continue
		}
		part := toWrite{Operation: i, Table: m.Target()}
		for _, row := range m.Rows {
			value, err := without(row, m.Table.Redact)
			if err != nil {
				return "", err
			}
			if room -= len(value); room < 0 {
				part.LeftOut++
				continue
			}
			part.Rows = append(part.Rows, value)
		}
		if m.Increment != nil {
			var err error
			if part.Increment, err = without(*m.Increment, m.Table.Redact); err != nil {
				return "", err
			}
		}
		all = append(all, part)
	}
	if len(all) == 0 {
		return "", nil
	}
	text, err := json.Marshal(all)
	return string(text), err
}

// without is the row with the values of columns replaced.
func without(row statement.Row, columns []string) (jsontext.Value, error) {
	if !slices.ContainsFunc(columns, func(column string) bool { return slices.Contains(row.Names, column) }) {
		return row.JSON, nil
	}
	var out bytes.Buffer
	decoder, encoder := jsontext.NewDecoder(bytes.NewReader(row.JSON)), jsontext.NewEncoder(&out)
	for {
		token, err := decoder.ReadToken()
		if err != nil {
			return nil, fmt.Errorf("redacting a row: %w", err)
		}
		if err := encoder.WriteToken(token); err != nil {
			return nil, fmt.Errorf("redacting a row: %w", err)
		}
		if token.Kind() == '}' {
			return bytes.TrimSpace(out.Bytes()), nil
		}
		if token.Kind() != '"' {
			continue
		}
		name := token.String()
		value, err := decoder.ReadValue()
		if err != nil {
			return nil, fmt.Errorf("redacting a row: %w", err)
		}
		if slices.Contains(columns, name) {
			value = jsontext.Value(redacted)
		}
		if err := encoder.WriteValue(value); err != nil {
			return nil, fmt.Errorf("redacting a row: %w", err)
		}
	}
}
