package gate

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// maxTries bounds how often one transaction runs when PostgreSQL asks for it.
const maxTries = 3

// retryPause is the longest pause before a retry; the actual one is random, so
// that two transactions that met don't meet again.
const retryPause = 20 * time.Millisecond

// SQLSTATEs after which the whole transaction, and nothing less, may run again.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
)

// retried runs the whole transaction again after a serialization failure or a
// deadlock, and once, as replan, after what a session keeps turned out to be out
// of date: all of them leave nothing behind.
func retried[T any](ctx context.Context, g *Gate, pool *pgxpool.Pool, transaction func(_ context.Context, replan bool) (T, error)) (T, error) {
	replan := false
	for try := 1; ; try++ {
		result, err := transaction(ctx, replan)
		if !replan && staleSession(err) {
			replan = true
			g.Observer.again(Replan)
			pool.Reset() // the next session is new, the others are as old as this one
			continue
		}
		why := reasonToRunAgain(err)
		if try >= maxTries || why == "" {
			return result, err
		}
		select {
		case <-time.After(rand.N(retryPause)):
			g.Observer.again(why)
		case <-ctx.Done():
			return result, err
		}
	}
}

// reasonToRunAgain returns "" if there is none.
func reasonToRunAgain(err error) Reason {
	var db *DatabaseError
	switch {
	case !errors.As(err, &db):
		return ""
	case db.SQLState == serializationFailure:
		return Serialization
	case db.SQLState == deadlockDetected:
		return Deadlock
	}
	return ""
}

// staleSession reports whether PostgreSQL stumbled over something that only the
// session keeps: a prepared statement, or a plan or function that PL/pgSQL made
// before a type changed. The routine, a name in PostgreSQL's source, tells these
// from the same SQLSTATE raised about a request; otherwise a caller could have
// sessions renewed at will.
func staleSession(err error) bool {
	var db *DatabaseError
	if !errors.As(err, &db) {
		return false
	}
	switch db.SQLState {
	case "26000", "42P05": // a prepared statement is gone, or there already
		return true
	case "0A000":
		return db.Routine == "RevalidateCachedQuery" // its result would have other columns
	case "42804":
		return strings.HasPrefix(db.Routine, "plpgsql_param_eval") // a variable or field has another type
	case "XX000":
		return slices.Contains(typeLookups, db.Routine)
	}
	return false
}

// typeLookups are the routines that don't find a type by its number any more:
// it was dropped and made anew, as is done to take a value out of an enum.
var typeLookups = []string{
	"TupleDescInitEntry", "format_type_extended", "getBaseTypeAndTypmod", "getTypeBinaryInputInfo", "getTypeBinaryOutputInfo",
	"getTypeInputInfo", "getTypeOutputInfo", "get_type_category_preferred", "get_type_io_data", "get_typlenbyval",
	"get_typlenbyvalalign", "plpgsql_build_datatype", "typeOrDomainTypeRelid", "typeidType",
}
