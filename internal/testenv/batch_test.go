package testenv

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fencegate/fencegate/internal/fence"
)

// wiredPostgres is a connection over a wire to a database with a table t.
func wiredPostgres(t *testing.T) (*Wire, *pgx.Conn, *Database) {
	t.Helper()
	db := Postgres(t)
	db.Exec(t, `CREATE TABLE t (n integer)`)
	w := NewWire(t, db.URL)
	conn, err := pgx.Connect(t.Context(), w.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.WithoutCancel(t.Context())) })
	return w, conn, db
}

func insert(t *testing.T, conn *pgx.Conn, n int) error {
	var batch pgx.Batch
	batch.Queue(`SELECT $1::int`, n)
	batch.Queue(`INSERT INTO t
		VALUES ($1)`, n)
	return conn.SendBatch(t.Context(), &batch).Close()
}

func TestWireTellsBatchesApart(t *testing.T) {
	w, conn, _ := wiredPostgres(t)
	if err := errors.Join(fence.MeetDatabase(t.Context(), conn), insert(t, conn, 1), conn.Ping(t.Context()), insert(t, conn, 2)); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Settle() // a batch is noted as forwarded only after its answer may have come
	statements := []string{`SELECT $1::int`, `INSERT INTO t VALUES ($1)`}
	want := []Batch{
		{Kind: StartUp, Messages: "^"},
		{Kind: Preparation, Messages: "PDS", Statements: setUps()[:1]},
		{Kind: SetUp, Messages: "BES", Statements: setUps()[:1]},
		{Kind: SetUp, Messages: "Q", Statements: setUps()[1:]},
		{Kind: Preparation, Messages: "PDPDS", Statements: statements},
		{Kind: Work, Messages: "BEBDES", Statements: statements},
		{Kind: Ping, Messages: "Q", Statements: []string{"-- ping"}},
		{Kind: Work, Messages: "BEBDES", Statements: statements},
		{Kind: Other, Messages: "X"},
	}
	same := func(a, b Batch) bool {
		return a.Like(b) && a.Messages == b.Messages && a.Forwarded == Whole && a.Link == 1
	}
	if !slices.EqualFunc(w.Batches(), want, same) {
		t.Errorf("it took them for\n%s", w.Story())
	}
}

func TestWireForwardsAsMuchOfABatchAsAHookSays(t *testing.T) {
	for _, extent := range []Extent{Nothing, Torn, Whole} {
		t.Run(string(extent), func(t *testing.T) {
			w, conn, db := wiredPostgres(t)
			w.Reset()
			work := func(b Batch) bool { return b.Executes("INSERT INTO t VALUES") }
			w.OnBatch(work, func() Extent {
				conn.PgConn().Conn().Close() // nobody is there to be answered
				return extent
			})
			if insert(t, conn, 1) == nil {
				t.Error("it was answered")
			}
			w.Settle()
			batches := w.Batches()
			if n := slices.IndexFunc(batches, work); n != 1 || batches[n].Forwarded != extent {
				t.Errorf("it has sent\n%s", w.Story())
			}
			if rows := count(t, db); (rows == 1) != (extent == Whole) {
				t.Errorf("%d rows", rows)
			}
		})
	}
}

func TestWireHoldsTheAnswerToABatch(t *testing.T) {
	w, conn, db := wiredPostgres(t)
	before, after := -1, -1
	executes := func(b Batch) bool { return b.Executes("INSERT INTO t VALUES") }
	w.OnBatch(executes, func() Extent { before = count(t, db); return Whole })
	w.OnAnswer(executes, func() bool { after = count(t, db); return true })
	if err := insert(t, conn, 1); err != nil {
		t.Fatal(err)
	}
	if before != 0 || after != 1 {
		t.Errorf("%d rows before it was sent, %d before it was answered", before, after)
	}
}

func TestWireLetsCopiesAndFlushesThrough(t *testing.T) {
	w, conn, db := wiredPostgres(t)
	rows := pgx.CopyFromSlice(10000, func(n int) ([]any, error) { return []any{n}, nil })
	if _, err := conn.CopyFrom(t.Context(), pgx.Identifier{"t"}, []string{"n"}, rows); err != nil {
		t.Fatal(err)
	}
	if n := count(t, db); n != 10000 {
		t.Errorf("%d rows", n)
	}
	w.Reset()
	pipeline := conn.PgConn().StartPipeline(t.Context())
	pipeline.SendQueryParams(`DELETE FROM t`, nil, nil, nil, nil)
	pipeline.SendFlushRequest()
	if err := pipeline.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := pipeline.GetResults(); err != nil { // an answer without a Sync
		t.Fatal(err)
	}
	if got := w.Batches(); len(got) != 1 || got[0].Forwarded != Torn {
		t.Errorf("before its Sync it has sent\n%s", w.Story())
	}
	if err := errors.Join(pipeline.Sync(), pipeline.Close()); err != nil {
		t.Fatal(err)
	}
	if got := w.Batches(); len(got) != 1 || got[0].Forwarded != Whole || !got[0].Executes("DELETE FROM t") {
		t.Errorf("it has sent\n%s", w.Story())
	}
}

func TestFramerCutsAlikeHoweverTheBytesArrive(t *testing.T) {
	sent := encoded(t,
		&pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30, Parameters: map[string]string{"user": "u"}},
		&pgproto3.PasswordMessage{Password: "p"},
		&pgproto3.Query{String: "-- ping"},
		&pgproto3.Parse{Name: "s", Query: "SELECT $1"}, &pgproto3.Describe{ObjectType: 'S', Name: "s"}, &pgproto3.Sync{},
		&pgproto3.Bind{PreparedStatement: "s", Parameters: [][]byte{[]byte("1")}}, &pgproto3.Execute{}, &pgproto3.Flush{},
		&pgproto3.Bind{PreparedStatement: "s", Parameters: [][]byte{[]byte("2")}}, &pgproto3.Execute{}, &pgproto3.Sync{},
		&pgproto3.CopyData{Data: []byte("d")}, &pgproto3.CopyDone{},
		&pgproto3.Terminate{},
	)
	all := framed(sent, len(sent))
	want := []string{"start-up ^", "start-up p", "ping Q", "preparation PDS", "other BEH", "work BEHBES", "no batch", "no batch", "other X"}
	if got := kinds(all); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for size := range len(sent) {
		some := framed(sent, size+1)
		if !slices.Equal(kinds(some), kinds(all)) || !bytes.Equal(joined(some), sent) {
			t.Errorf("in pieces of %d: %q", size+1, kinds(some))
		}
	}
}

func TestFramerPassesOnWhatItDoesNotUnderstand(t *testing.T) {
	for name, sent := range map[string]string{
		"no start-up":         "\x00\x00\x00\x03 and more",
		"no message":          "\x00\x00\x00\x08\x00\x03\x00\x00Q\x00\x00\x00\x01 and more",
		"the end of a batch":  "\x00\x00\x00\x08\x00\x03\x00\x00S\x00\x00\x00\x04P\x00\x00\x00\x09ab",
		"an encryption first": "\x00\x00\x00\x08\x04\xd2\x16\x2f\x00\x00\x00\x08\x00\x03\x00\x00",
	} {
		for size := range len(sent) {
			if got := joined(framed([]byte(sent), size+1)); string(got) != sent {
				t.Errorf("%s, in pieces of %d: %q", name, size+1, got)
			}
		}
	}
}

func encoded(t *testing.T, messages ...pgproto3.FrontendMessage) (sent []byte) {
	t.Helper()
	for _, m := range messages {
		var err error
		if sent, err = m.Encode(sent); err != nil {
			t.Fatal(err)
		}
	}
	return sent
}

// framed cuts what is sent, which arrives in pieces of that size.
func framed(sent []byte, size int) (pieces []piece) {
	f := &framer{batch: newDraft(1)}
	for part := range slices.Chunk(sent, size) {
		pieces = append(pieces, f.cut(part)...)
	}
	return append(pieces, f.rest()...)
}

func kinds(pieces []piece) (all []string) {
	for _, p := range pieces {
		if p.batch == nil {
			all = append(all, "no batch")
			continue
		}
		all = append(all, string(p.batch.Kind)+" "+p.batch.Messages)
	}
	return all
}

func joined(pieces []piece) (all []byte) {
	for _, p := range pieces {
		all = append(all, p.data...)
	}
	return all
}

func count(t *testing.T, db *Database) (rows int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM t`).Scan(&rows); err != nil {
		t.Fatal(err)
	}
	return rows
}
