package testenv

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Batch is what a gateway sent PostgreSQL in one go: a simple query, or what
// leads up to a Sync. PostgreSQL makes it one transaction.
type Batch struct {
	Link       int // the connection it went over, from 1
	Kind       Kind
	Messages   string   // the protocol's letter of each; a start-up, which has none, is ^
	Statements []string // what it executes or, if nothing, prepares; white space folded
	Forwarded  Extent
}

// Kind is what a batch is for.
type Kind string

// The kinds of batches. Nothing but Work changes what a request asked for.
const (
	StartUp     Kind = "start-up"    // a connection begins, with its authentication
	Ping        Kind = "ping"        // a pool asks whether an idle connection lives
	SetUp       Kind = "set-up"      // a new connection meets its database
	Preparation Kind = "preparation" // statements are parsed, none is executed
	Work        Kind = "work"
	Other       Kind = "other" // cut off, the end of a connection, a cancellation
)

// Extent is how much of a message a wire has passed on.
type Extent string

// The extents.
const (
	Nothing Extent = "nothing"
	Torn    Extent = "torn" // not its last part: of a batch, the Sync that commits it
	Whole   Extent = "whole"
)

// setUps are the statements of fence.MeetDatabase.
func setUps() []string {
	return []string{"SELECT NOT pg_is_in_recovery()", "SELECT fencegate.ensure_epoch()"}
}

// Executes reports whether the batch executes a statement with text in it.
func (b Batch) Executes(text string) bool {
	return b.Kind == Work && slices.ContainsFunc(b.Statements, func(sql string) bool { return strings.Contains(sql, text) })
}

// Like reports whether both do the same, whatever the parameters.
func (b Batch) Like(other Batch) bool {
	return b.Kind == other.Kind && slices.Equal(b.Statements, other.Statements)
}

// String is one line for the log of a test.
func (b Batch) String() string {
	short := make([]string, len(b.Statements))
	for i, sql := range b.Statements {
		short[i] = fmt.Sprintf("%.90s", sql)
	}
	return fmt.Sprintf("connection %d, %s, %s, forwarded %s: %s",
		b.Link, b.Kind, b.Messages, b.Forwarded, strings.Join(short, "; "))
}

// kind is what a batch that has come to its end is for.
func (b Batch) kind() Kind {
	switch {
	case strings.ContainsAny(b.Messages, "^p"):
		return StartUp
	case !strings.ContainsAny(b.Messages, "SQF"):
		return Other
	case !strings.ContainsAny(b.Messages, "EQF"):
		return Preparation
	case !slices.ContainsFunc(b.Statements, says):
		return Ping
	case !slices.ContainsFunc(b.Statements, func(sql string) bool { return !slices.Contains(setUps(), sql) }):
		return SetUp
	}
	return Work
}

// says reports whether sql asks for anything; "-- ping" is how pgx pings.
func says(sql string) bool { return strings.Trim(sql, " ;") != "" && sql != "-- ping" }

// draft is the batch under way on a connection that has prepared statements.
type draft struct {
	Batch
	parsed   []string
	prepared map[string]string // SQL by the statement's name
	portals  map[string]string // SQL by the portal's name
}

func newDraft(link int) *draft {
	return &draft{
		Batch:    Batch{Link: link, Kind: Other, Forwarded: Nothing},
		prepared: map[string]string{}, portals: map[string]string{},
	}
}

// add takes a message down; letter ^ is a start-up.
func (d *draft) add(letter byte, body []byte) {
	d.Messages += string(rune(letter))
	switch letter {
	case 'Q':
		var m pgproto3.Query
		m.Decode(body)
		d.execute(m.String)
	case 'F':
		d.execute("a function call")
	case 'P':
		var m pgproto3.Parse
		m.Decode(body)
		d.prepared[m.Name] = m.Query
		d.parsed = append(d.parsed, folded(m.Query))
	case 'B':
		var m pgproto3.Bind
		m.Decode(body)
		d.portals[m.DestinationPortal] = d.prepared[m.PreparedStatement]
	case 'E':
		var m pgproto3.Execute
		m.Decode(body)
		d.execute(cmp.Or(d.portals[m.Portal], "a statement that was never prepared"))
	}
}

func (d *draft) execute(sql string) { d.Statements = append(d.Statements, folded(sql)) }

func folded(sql string) string { return strings.Join(strings.Fields(sql), " ") }

// concluded returns the batch, which is complete, and begins the next one.
func (d *draft) concluded() Batch {
	b := d.Batch
	b.Kind = b.kind()
	if b.Kind == Preparation {
		b.Statements = d.parsed
	}
	d.Batch, d.parsed = Batch{Link: b.Link, Kind: Other, Forwarded: Nothing}, nil
	return b
}
