package statement

import "github.com/fencegate/fencegate/internal/catalog"

// CallText is a call as a statement of its own: the number of its rows, the rows
// if they are asked for, and its lock key.
func CallText(r *catalog.Routine, params Row, rows bool) (Statement, error) {
	var b builder
	key, err := routineSource(&b, r, params)
	if err != nil {
		return Statement{}, err
	}
	json := "NULL"
	if rows {
		json = "string_agg(row_to_json(w.*)::pg_catalog.text, ',')"
	}
	b.WriteString("\nSELECT count(*), " + json + ", " + key + " FROM w")
	return b.statement(), nil
}
