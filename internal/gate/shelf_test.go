package gate

import (
	"errors"
	"fmt"
	"testing"

	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/statement"
)

var origin = audit.Origin{Principal: "test", RequestID: "request-1", RemoteAddress: "127.0.0.1"}

// shelf is a legacy table with one row, and writes to it.
type shelf struct {
	*testing.T
	*world
	gate  *Gate
	table *catalog.Table
}

const shelfKey lease.Key = "item:a"

func newShelf(t *testing.T, options ...func(*Config)) *shelf {
	t.Helper()
	w := newWorld(t)
	w.db.Exec(t, `CREATE TABLE item (id text PRIMARY KEY, value text NOT NULL)`)
	w.db.Exec(t, `INSERT INTO item VALUES ('a', 'before'), ('b', 'before')`)
	template, err := lease.ParseTemplate("item:{id}")
	if err != nil {
		t.Fatal(err)
	}
	tables, err := catalog.Load(t.Context(), w.pool, catalog.Specs{Schemas: []string{"public"}, Tables: []catalog.Spec{{
		Schema: "public", Name: "item", Lock: template,
		Operations: []catalog.Operation{catalog.Select, catalog.Insert, catalog.Update, catalog.Delete},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	table, err := tables.Table("public", "item")
	if err != nil {
		t.Fatal(err)
	}
	return &shelf{T: t, world: w, gate: w.gate(t, options...), table: table}
}

// write sets the row's value under claim.
func (s *shelf) write(claim lease.Claim, value string) (Result, error) {
	return s.gate.Write(s.Context(), Write{
		Principal: auth.Anyone, Claims: []lease.Claim{claim}, Origin: origin,
		Mutations: []statement.Mutation{s.change(value)},
	})
}

// change sets the row's value.
func (s *shelf) change(value string) statement.Mutation {
	return statement.Mutation{
		Op: catalog.Update, Table: s.table, MaxAffected: -1,
		Rows:    []statement.Row{{Names: []string{"value"}, JSON: []byte(`{"value":"` + value + `"}`)}},
		Filters: []statement.Filter{{Column: "id", Op: statement.Eq, Values: []string{"a"}}},
	}
}

func (s *shelf) value() (value string) {
	s.Helper()
	if err := s.pool.QueryRow(s.Context(), `SELECT value FROM item WHERE id = 'a'`).Scan(&value); err != nil {
		s.Fatal(err)
	}
	return value
}

// refusedFor fails the test unless the write is refused with code, recorded,
// and has changed nothing.
func (s *shelf) refusedFor(claim lease.Claim, code fence.Code) {
	s.Helper()
	if broken := s.refusal(claim, code); broken != "" {
		s.Fatal(broken)
	}
}

func (s *shelf) refusal(claim lease.Claim, code fence.Code) (broken string) {
	before := s.value()
	_, err := s.write(claim, "late")
	var refused *Refused
	switch {
	case !errors.As(err, &refused):
		return fmt.Sprintf("not refused: %v", err)
	case s.value() != before:
		return "refused, but the row has changed"
	case refused.Code != code:
		return fmt.Sprintf("refused with %s, expected %s", refused.Code, code)
	}
	record, err := audit.NewReader(s.pool).Get(s.Context(), refused.AuditID)
	if err != nil || record.Code != string(code) || record.Claim.Token != claim.Token ||
		record.Operation != "update" || record.Disposition != audit.Refused || record.Table != "public.item" {
		return fmt.Sprintf("its record is %+v, %v", record, err)
	}
	return ""
}

// liveElsewhere makes the database look as if it had been dumped, restored and
// used in another cluster in between.
func (s *shelf) liveElsewhere() {
	s.db.Exec(s.T, `INSERT INTO fencegate.epochs (system_identifier, timeline, token_floor)
		SELECT 1, timeline, 0 FROM fencegate.epochs WHERE id = fencegate.current_epoch()`)
}
