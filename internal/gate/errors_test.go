package gate

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// What an error says about a transaction whose COMMIT was sent along: only an
// ERROR of PostgreSQL's own proves that it was rolled back.
func TestOnlyPostgreSQLItselfProvesARollback(t *testing.T) {
	t.Parallel()
	own := &pgconn.PgError{Severity: "FEHLER", SeverityUnlocalized: "ERROR", Code: "23505"}
	fatal := &pgconn.PgError{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "57P01"}
	poolers := &pgconn.PgError{Severity: "FATAL", Code: "08P01", Message: "server conn crashed?"}
	for name, c := range map[string]struct {
		at   stage
		err  error
		want error // nil: a *DatabaseError
	}{
		"AnErrorWhileExecuting":             {executing, own, nil},
		"AnErrorOfTheCommit":                {committing, own, nil},
		"ASessionEndedBeforeItsEnd":         {executing, fatal, ErrDatabaseUnavailable},
		"ASessionEndedAroundItsCommit":      {committing, fatal, ErrOutcomeUnknown},
		"APoolersWordWhileExecuting":        {executing, poolers, ErrOutcomeUnknown},
		"APoolersWordInPlaceOfTheCommit":    {committing, poolers, ErrOutcomeUnknown},
		"APoolersWordBeforeAnythingWasSent": {reaching, poolers, ErrDatabaseUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := classify(c.at, c.err)
			var db *DatabaseError
			if c.want == nil && !errors.As(err, &db) || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%v", err)
			}
		})
	}
}
