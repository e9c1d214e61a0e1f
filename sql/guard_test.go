package sql_test

import (
	"os"
	"strings"
	"testing"
)

func TestTheSchemaGoesBackOnlyWithoutGuards(t *testing.T) {
	t.Parallel()
	s := newSchema(t)
	down, err := os.ReadFile("migrations/0012_guard.down.sql")
	if err != nil {
		t.Fatal(err)
	}
	s.db.Exec(t, `INSERT INTO fencegate.guards VALUES ('fencegate.marks', 'f', 'k', 'enforce')`)
	if _, err := s.pool.Exec(t.Context(), string(down)); err == nil || !strings.Contains(err.Error(), "there are guards on fencegate.marks") {
		t.Errorf("with a guard it went back: %v", err)
	}
	s.db.Exec(t, `DELETE FROM fencegate.guards; SELECT fencegate.raise_mark('k', 'h', 0, 0, '', '')`)
	for _, file := range []string{"0012_guard.down.sql", "0012_guard.up.sql"} {
		s.move(file)
		observe := ""
		if strings.Contains(file, "up") {
			observe = ", false"
		}
		s.db.Exec(t, `SELECT fencegate.admit(ARRAY['k'], ARRAY['h'], ARRAY[1::bigint]`+observe+`)`)
	}
	s.db.Exec(t, `SELECT fencegate.admit('k', '1', 'h')`) // values without a type
}
