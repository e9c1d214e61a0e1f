package proxy

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fencegate/fencegate/internal/api"
	"github.com/fencegate/fencegate/internal/gate"
)

// The private SQLSTATEs of fencegate.check_rows for a number of rows that the
// request did not allow.
const (
	stateTooMany = "FG004"
	stateTooFew  = "FG008"
)

// sqlStates maps what PostgreSQL raised, by the whole SQLSTATE or its class.
var sqlStates = map[string]struct {
	status int
	slug   string
	retry  bool
}{
	"23505":      {http.StatusConflict, "unique_violation", false},
	"23503":      {http.StatusConflict, "foreign_key_violation", false},
	"23001":      {http.StatusConflict, "foreign_key_violation", false}, // ON DELETE RESTRICT, from PostgreSQL 18 on
	"23P01":      {http.StatusConflict, "exclusion_violation", false},
	"23502":      {http.StatusUnprocessableEntity, "not_null_violation", false},
	"23514":      {http.StatusUnprocessableEntity, "check_violation", false},
	"22":         {http.StatusUnprocessableEntity, "invalid_value", false},
	"428C9":      {http.StatusUnprocessableEntity, "generated_column", false},
	"21000":      {http.StatusUnprocessableEntity, "same_row_twice", false},
	"42P10":      {http.StatusUnprocessableEntity, "no_conflict_key", false},
	"44000":      {http.StatusUnprocessableEntity, "check_option_violation", false},
	"55000":      {http.StatusUnprocessableEntity, "not_updatable", false},
	"42883":      {http.StatusUnprocessableEntity, "operator_not_possible", false},
	"42804":      {http.StatusUnprocessableEntity, "type_mismatch", false},
	"42846":      {http.StatusUnprocessableEntity, "type_mismatch", false},
	"42703":      {http.StatusUnprocessableEntity, "unknown_column", false},
	"42P01":      {http.StatusNotFound, "unknown_table", false},
	"42501":      {http.StatusForbidden, "insufficient_privilege", false},
	"P0":         {http.StatusUnprocessableEntity, "raised_by_database", false}, // RAISE, ASSERT, STRICT
	"3F000":      {http.StatusUnprocessableEntity, "invalid_value", false},      // a regnamespace of nothing
	"0A000":      {http.StatusUnprocessableEntity, "not_possible_here", false},
	"54":         {http.StatusUnprocessableEntity, "too_large", false},
	"FG003":      {http.StatusInternalServerError, "wrong_isolation", false},
	stateTooMany: {http.StatusConflict, "max_affected_exceeded", false},
	stateTooFew:  {http.StatusConflict, "too_few_rows", false},
	"FG007":      {http.StatusRequestEntityTooLarge, "answer_too_large", false},
	"FG011":      {http.StatusForbidden, "unfenced_write", false}, // a table's guard
	"42704":      {http.StatusUnprocessableEntity, "operator_not_possible", false},
	"42725":      {http.StatusUnprocessableEntity, "operator_not_possible", false},
	"42P18":      {http.StatusUnprocessableEntity, "operator_not_possible", false}, // no type for the value
	"40001":      {http.StatusServiceUnavailable, "serialization_failure", true},
	"40P01":      {http.StatusServiceUnavailable, "serialization_failure", true},
	"55P03":      {http.StatusServiceUnavailable, "row_locked", true},
	"53":         {http.StatusServiceUnavailable, "overloaded", true},
	"57P":        {http.StatusServiceUnavailable, "database_unavailable", true},
	"25006":      {http.StatusServiceUnavailable, "database_unavailable", true},
	"57014":      {http.StatusGatewayTimeout, "statement_timeout", true},
}

func databaseFault(db *gate.DatabaseError) *fault {
	if f := raisedStatus(db); f != nil {
		return f
	}
	known, ok := sqlStates[db.SQLState]
	for n := len(db.SQLState) - 1; !ok && n >= 2; n-- {
		known, ok = sqlStates[db.SQLState[:n]]
	}
	if db.SQLState == "42601" && db.Position == 0 { // a value has a syntax of its own, such as a tsquery
		known, ok = sqlStates["22"], true
	}
	if !ok && !ofPostgreSQL(db.SQLState) {
		known, ok = sqlStates["P0"], true
	}
	if !ok {
		return rolledBack()
	}
	f := &fault{status: known.status, slug: known.slug, code: cmp.Or(postgrestCodes[known.slug], db.SQLState), sqlState: db.SQLState,
		detail: shorten(db.Message), hint: shorten(db.Hint), constraint: db.Constraint, column: db.Column}
	if known.retry {
		f.retryAfter = time.Second
	}
	return f
}

// rolledBack is an internal error that PostgreSQL ended the transaction for.
func rolledBack() *fault {
	f := *errInternal
	f.outcome = api.NotApplied
	return &f
}

// raisedStatus is for PTxyz, by which a function of the database chooses the
// status xyz itself, as with PostgREST. 412 is the fence's alone.
func raisedStatus(db *gate.DatabaseError) *fault {
	digits, ok := strings.CutPrefix(db.SQLState, "PT")
	status, err := strconv.Atoi(digits)
	if !ok || err != nil || status < 400 || status > 599 || status == http.StatusPreconditionFailed {
		return nil
	}
	return &fault{status: status, slug: "raised_by_database", code: db.SQLState, sqlState: db.SQLState,
		detail: shorten(db.Message), hint: shorten(db.Hint)}
}

// classes are those of PostgreSQL's own SQLSTATEs, and ours. Any other was made up
// by a function of the database, for its callers to see.
var classes = strings.Fields(`00 01 02 03 08 09 0A 0B 0F 0L 0P 0Z 20 21 22 23 24 25 26 27 28 2B 2D 2F
	34 38 39 3B 3D 3F 40 42 44 53 54 55 57 58 72 F0 FG HV P0 XX`)

func ofPostgreSQL(state string) bool { return len(state) < 2 || slices.Contains(classes, state[:2]) }

// Bounds of what repeats a wrong value or name, in bytes.
const (
	maxQuoted = 200  // a name or value in a detail
	maxEcho   = 500  // a message of PostgreSQL's, in an answer or the log
	maxDetail = 2000 // a whole detail
)

func shorten(text string) string { return cut(text, maxEcho) }

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// echoed shortens the texts among args.
func echoed(args []any) []any {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = cut(text, maxQuoted)
		}
	}
	return args
}
