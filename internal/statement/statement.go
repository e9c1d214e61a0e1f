// Package statement turns what a request asks for into SQL, and is the only
// place that quotes an identifier or builds a condition.
//
// It is pure: the same Mutation, lock key and table give the same text. Values
// never become part of the text; they travel as parameters, in the literal form
// the request had, and PostgreSQL types them by the column.
package statement

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/lease"
)

// Statement is one SQL statement. It answers exactly one row: how many rows it
// touched (bigint), those rows as JSON objects separated by commas (text, NULL
// if none or not asked for), the total that matched (bigint, NULL unless asked
// for), and the row's ETag (text, likewise).
type Statement struct {
	SQL  string
	Args []any
}

// Mutation is one write to one table, or one call of a routine.
type Mutation struct {
	Op      catalog.Operation // Insert, Update, Delete or Call
	Table   *catalog.Table
	Routine *catalog.Routine // Call, in place of Table
	Rows    []Row            // Insert: one or more; Update: exactly one; Call: the parameters
	// Update: what to add to columns, by a row of its own; nil: nothing.
	Increment *Row
	Filters   []Filter // Update and Delete; all must hold
	// Insert: the columns that every row gets, absent members as NULL. Nil: each
	// row decides for itself, absent members take the default.
	Columns []string
	// Insert: what to do about rows that are there already. Nil: an error.
	Upsert  *Upsert
	All     bool        // allows Update and Delete without filters
	IfMatch []string    // Update and Delete: touch only rows with one of these ETags; nil: any
	Return  Columns     // the zero value returns nothing
	Order   []OrderTerm // of what is returned
	ETag    bool        // answer the ETag of the one row that is returned
	// MinAffected and MaxAffected bound the rows that are touched; MaxAffected
	// negative: no bound.
	MinAffected, MaxAffected int64
	MaxBytes                 int64 // of what is returned
	Keep                     Keep
	// Observe, if it is not nil, notes what is out of scope, or written under a
	// higher token by its fence column, in place of refusing it.
	Observe *Observe
}

// Upsert resolves rows that collide on a unique key.
type Upsert struct {
	Target []string // columns of the unique key; nil: the primary key
	Merge  bool     // update the row that is there; false: leave it
}

// Keep makes a statement store what it answers under an idempotency key that
// its transaction has claimed. The zero value stores nothing.
type Keep struct {
	Principal string
	Key       string
	Operation int // the mutation's place in its transaction, from 0
}

// Operations lists everything that m may do to its table: an upsert that merges
// updates as well.
func (m Mutation) Operations() []catalog.Operation {
	if m.Upsert != nil && m.Upsert.Merge {
		return []catalog.Operation{m.Op, catalog.Update}
	}
	return []catalog.Operation{m.Op}
}

// Target names what m writes to, as records show it.
func (m Mutation) Target() string {
	if m.Op == catalog.Call {
		return m.Routine.QualifiedName()
	}
	return m.Table.QualifiedName()
}

// sorted reports whether what m returns has an order.
func (m Mutation) sorted() bool { return len(m.Order) > 0 && m.Return.Any() }

// Row is one JSON object of a request: its members' names in the order they
// came, and its text.
type Row struct {
	Names []string
	JSON  []byte
	At    string // the object's place in what was sent, as a JSON pointer
}

// Query is one read of one table, or one call of a routine that only reads,
// with nothing but its parameters and bounds.
type Query struct {
	Table   *catalog.Table
	Routine *catalog.Routine // in place of Table
	Params  Row              // of Routine
	Columns Columns
	Filters []Filter
	Order   []OrderTerm
	Limit   int64
	Offset  int64
	Total   bool // count all rows that match
	ETag    bool // answer the ETag of the one row that is returned
	// MaxBytes bounds the text of all rows together.
	MaxBytes int64
}

// OrderTerm is one column, or place in one, to sort by.
type OrderTerm struct {
	Column string
	Path   Path
	Desc   bool
	Nulls  string // "", "first" or "last"
}

// Fault is a request that can't become a statement on this table. It says which
// column, filter or member is wrong.
type Fault struct {
	Code      Code
	Column    string // "" if none is at fault
	Parameter string // the query parameter at fault, "" if none
	Pointer   string // the JSON pointer of the member at fault, "" if only Column says it
	Detail    string
}

func (f *Fault) Error() string { return fmt.Sprintf("%s: %s", f.Code, f.Detail) }

// Code names a kind of Fault.
type Code string

// The kinds of faults.
const (
	UnknownColumn  Code = "unknown_column"
	FilterRequired Code = "filter_required" // an update or delete of every row
	ScopeNotPinned Code = "lock_scope_not_pinned"
	EmptyBody      Code = "empty_body"
	NoConflictKey  Code = "no_conflict_key" // an upsert without a unique key to collide on
	NotInColumns   Code = "not_in_columns"  // a member beside the listed columns
	NotJSON        Code = "not_json"        // a path into a column of another type
	FenceColumn    Code = "fence_column"    // a member that is the gateway's to set
	NotAllowed     Code = "column_not_allowed"
	MixedRows      Code = "mixed_rows"      // rows with other members, which need a statement each
	NamedTwice     Code = "malformed_query" // two members of one name
	NotALiteral    Code = "invalid_value"   // JSON for a type that only PostgreSQL's literal can give
	TooLarge       Code = "too_large"       // more than PostgreSQL can be sent
)

// ErrNotPinned is wrapped by a fault of kind ScopeNotPinned.
var ErrNotPinned = errors.New("a column of the lock template is not pinned")

// Unwrap lets errors.Is find ErrNotPinned.
func (f *Fault) Unwrap() error {
	if f.Code == ScopeNotPinned {
		return ErrNotPinned
	}
	return nil
}

// builder collects text and parameters.
type builder struct {
	strings.Builder
	args []any
}

// param adds a value and returns its placeholder.
func (b *builder) param(value any) string {
	b.args = append(b.args, value)
	return "$" + strconv.Itoa(len(b.args))
}

func (b *builder) statement() Statement { return Statement{SQL: b.String(), Args: b.args} }

// Build returns the statements of m, to be run in order in one transaction that
// has passed the fence for claims. Each raises FG002 if a row it touched is
// covered by none of their keys, and FG004 or FG008 if it touched too many or
// too few. There are no more than MaxStatements.
func Build(m Mutation, claims []lease.Claim) ([]Statement, error) {
	statements, err := build(m, claims)
	if err != nil {
		return nil, err
	}
	return statements, counted(statements...)
}

func build(m Mutation, claims []lease.Claim) ([]Statement, error) {
	if m.Op == catalog.Call {
		return buildCall(m, claims)
	}
	if err := checkColumns(m); err != nil {
		return nil, err
	}
	m.Return = m.Return.of(m.Table)
	m.ETag = m.ETag && !m.Table.Hides()
	switch m.Op {
	case catalog.Insert:
		return buildInserts(m, claims)
	case catalog.Update:
		return buildUpdate(m, claims)
	case catalog.Delete:
		return buildDelete(m, claims)
	}
	return nil, fmt.Errorf("no statement for operation %q", m.Op)
}

func checkColumns(m Mutation) error {
	rows := m.Rows
	if m.Increment != nil {
		rows = append(slices.Clone(rows), *m.Increment)
	}
	for _, row := range rows {
		if err := checkRow(m, row); err != nil {
			return err
		}
	}
	if err := checkIncrement(m); err != nil {
		return err
	}
	if err := checkInsertColumns(m); err != nil {
		return err
	}
	if err := m.Return.Check(m.Table); err != nil {
		return err
	}
	if m.IfMatch != nil && m.Table.Hides() {
		return &Fault{Code: NotAllowed, Parameter: "If-Match",
			Detail: fmt.Sprintf("an ETag is of the whole row, and not all columns of %q may be read", m.Table.Name)}
	}
	if err := checkOrder(m.Table, m.Order); err != nil {
		return err
	}
	return checkFilters(m.Table, m.Filters, "")
}

func checkRow(m Mutation, row Row) error {
	if err := checkStamp(m.Table, row.Names); err != nil {
		return err
	}
	loose := false
	for _, name := range row.Names {
		if err := m.sets(name, ""); err != nil {
			return err
		}
		column, _ := m.Table.Column(name)
		loose = loose || looseJSON(column)
	}
	if !loose {
		return nil
	}
	return checkMembers(row, m.Table.Column)
}

// sets returns a *Fault unless m may set the column in all that it does.
func (m Mutation) sets(column, parameter string) error {
	for _, op := range m.Operations() {
		if err := allowed(m.Table, column, parameter, string(op), m.Table.May(op, column)); err != nil {
			return err
		}
	}
	return nil
}

// checkIncrement returns a *Fault for a column that a filter may not name: whether a
// sum overflows, or fails a constraint, tells the value as well as a filter would.
func checkIncrement(m Mutation) error {
	if m.Increment == nil {
		return nil
	}
	for _, name := range m.Increment.Names {
		if err := allowed(m.Table, name, "", "increment", m.Table.MaySearch(name)); err != nil {
			return err
		}
	}
	return nil
}

// mayReturn returns a *Fault unless the column is there and may be returned.
func mayReturn(table *catalog.Table, column, parameter string) error {
	return allowed(table, column, parameter, "read", table.May(catalog.Select, column))
}

// maySearch returns a *Fault unless a filter may name the column.
func maySearch(table *catalog.Table, column, parameter string) error {
	return allowed(table, column, parameter, "filter by", table.MaySearch(column))
}

// allowed tells a column that may be used otherwise from one that is not there,
// for all that the caller is to know.
func allowed(table *catalog.Table, column, parameter, act string, may bool) error {
	switch {
	case !table.Shows(column):
		return unknown(table, column, parameter)
	case !may:
		return &Fault{Code: NotAllowed, Column: column, Parameter: parameter,
			Detail: fmt.Sprintf("you may not %s the column %q of table %q", act, column, table.Name)}
	}
	return nil
}

func unknown(table *catalog.Table, column, parameter string) error {
	return &Fault{
		Code: UnknownColumn, Column: column, Parameter: parameter,
		Detail: fmt.Sprintf("table %q has no column %q", table.Name, column),
	}
}
