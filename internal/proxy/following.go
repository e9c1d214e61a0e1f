package proxy

import (
	"errors"
	"net/http"
	"slices"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/gate"
	"github.com/fencegate/fencegate/internal/statement"
)

// following lets act work with the tables as they are to the caller, and once more if it
// met an error that only these may be to blame for and they have changed.
func (s *Server) following(r *http.Request, act func(*catalog.Snapshot) error) error {
	tables := s.Catalog.Snapshot()
	err := act(principal(r).View(tables))
	if !restsOnTables(err) {
		return err
	}
	changed, failed := s.Catalog.Follow(r.Context(), tables)
	if failed != nil {
		s.Log.Warn("the protected tables could not be read anew; the gateway goes on with what it knows", "error", failed)
	}
	if !changed {
		return err
	}
	return act(principal(r).View(s.Catalog.Snapshot()))
}

// restsOnTables reports whether err comes from what the tables are known to look
// like. After such an error nothing was applied.
func restsOnTables(err error) bool {
	var wrong *statement.Fault
	var own *fault
	var db *gate.DatabaseError
	switch {
	case errors.As(err, &wrong):
		return slices.Contains(tableFaults, wrong.Code)
	case errors.As(err, &db):
		return slices.Contains(tableStates, db.SQLState)
	}
	return errors.As(err, &own) && own.slug == slugPrimaryKey
}

var tableFaults = []statement.Code{
	statement.UnknownColumn, statement.NotJSON, statement.NoConflictKey, statement.NamedTwice,
}

// tableStates are the SQLSTATEs by which PostgreSQL refuses a statement that was
// built for other columns than there are. Each can also be the caller's mistake.
var tableStates = []string{
	"42703", // there is no such column
	"42704", // there is no such type
	"42804", // a value of another type than the column's
	"42846", // no way from the one type to the other
	"42883", // no operator between them; also statement's own check of the types
	"42P10", // no unique key on these columns
}
