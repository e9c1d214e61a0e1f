// Package fence keeps the marks: for each lock key the highest token ever
// granted and who it was granted to, in the protected database itself.
//
// It is the only authority on who may write. A lease check may refuse a write;
// only Admit, inside the write's own transaction, admits one. Nothing here
// rests on a clock or on the lock service keeping its data.
//
// Not promised: that a grant's holder is still alive. That is what leases are
// for.
package fence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/lease"
	"github.com/fencegate/fencegate/internal/pooled"
)

// Marks reads and moves the marks of one database. Safe for concurrent use.
type Marks struct {
	db    pooled.Querier
	moves pooled.Querier
}

// New returns the marks of the database behind both: db is for what never waits,
// moves for grants, releases and revocations, which wait for writes in flight and
// must not keep renewals of other keys waiting with them.
func New(db, moves pooled.Querier) *Marks { return &Marks{db: db, moves: moves} }

// State is what became of a mark's grant.
type State string

// The states of a mark. Only Held admits writes.
const (
	Held     State = "held"
	Released State = "released"
	Revoked  State = "revoked"
)

// Mark is one lock key's high-water mark. The zero value stands for a key that
// was never granted.
type Mark struct {
	Key          lease.Key
	Token        lease.Token
	State        State
	Client       string
	HolderDigest string
	GrantedAt    time.Time
	Age          time.Duration // since the grant, by the database's clock
	Blocked      time.Duration // how long no grant is possible yet; 0: free
}

// Times come as microseconds: how one looks as text depends on the session.
const markColumns = `lock_key, token, state, client, fencegate.holder_digest(holder),
	(extract(epoch FROM granted_at) * 1000000)::bigint,
	(extract(epoch FROM clock_timestamp() - granted_at) * 1000000)::bigint,
	greatest(coalesce((extract(epoch FROM blocked_until - clock_timestamp()) * 1000000)::bigint, 0), 0)`

// Read returns the mark of key, the zero Mark if it was never granted.
func (m *Marks) Read(ctx context.Context, key lease.Key) (Mark, error) {
	rows, _ := m.db.Query(ctx, `SELECT `+markColumns+` FROM fencegate.marks WHERE lock_key = $1`, key)
	mark, err := pgx.CollectExactlyOneRow(rows, scanMark)
	if errors.Is(err, pgx.ErrNoRows) {
		return Mark{}, nil
	}
	return mark, wall("reading the mark", key, err)
}

// Selection picks marks. The zero value picks none.
type Selection struct {
	Prefix string    // of their keys
	After  lease.Key // their keys come after it, in byte order
	Held   bool      // only those that admit writes
	Limit  int
}

// List returns the marks that s picks, in byte order of their keys.
func (m *Marks) List(ctx context.Context, s Selection) ([]Mark, error) {
	const query = `
		SELECT ` + markColumns + `
		  FROM fencegate.marks
		 WHERE lock_key >= $1
		   AND starts_with(lock_key, $1)
		   AND lock_key > $2
		   AND (state = 'held' OR NOT $3)
		 ORDER BY lock_key
		 LIMIT $4`
	rows, _ := m.db.Query(ctx, query, s.Prefix, s.After, s.Held, s.Limit)
	marks, err := pgx.CollectRows(rows, scanMark)
	if err != nil {
		return nil, fmt.Errorf("listing marks: %w", classify(err))
	}
	return marks, nil
}

func scanMark(row pgx.CollectableRow) (Mark, error) {
	var m Mark
	var granted, age, blocked int64
	err := row.Scan(&m.Key, &m.Token, &m.State, &m.Client, &m.HolderDigest, &granted, &age, &blocked)
	m.GrantedAt = time.UnixMicro(granted)
	m.Age, m.Blocked = time.Duration(age)*time.Microsecond, time.Duration(blocked)*time.Microsecond
	return m, err
}

// Raise grants key to holder under the next token above above, only if the mark
// is still the one that was read before the lease was taken; otherwise
// ErrLostRace, or ErrBlocked while the key is revoked. It waits for the write in flight under
// the old token, at most the connection's lock_timeout (ErrBusy).
func (m *Marks) Raise(ctx context.Context, claim lease.Claim, above lease.Token, g Grantee) (lease.Token, error) {
	var outcome string
	var token *lease.Token
	err := m.moves.QueryRow(ctx,
		`SELECT outcome, token FROM fencegate.raise_mark($1, $2, $3, $4, $5, $6)`,
		claim.Key, claim.Holder.Wire(), claim.Token, above, g.Client, g.Principal,
	).Scan(&outcome, &token)
	switch {
	case err != nil:
		return 0, wall("raising the mark", claim.Key, err)
	case outcome == "lost_race":
		return 0, ErrLostRace
	case outcome == "blocked":
		return 0, ErrBlocked
	}
	return *token, nil
}

// Grantee is who a grant is recorded for.
type Grantee struct {
	Client    string // the worker's own name for itself; proves nothing
	Principal string // whom the gateway authenticated
}

// Release closes the mark for the claim's holder: when it returns nil nothing
// is admitted under the claim any more. A claim that no longer holds the mark
// gets a *Refusal and changes nothing.
func (m *Marks) Release(ctx context.Context, claim lease.Claim, principal string) error {
	var code *Code
	var mark *lease.Token
	err := m.moves.QueryRow(ctx, `SELECT code, mark FROM fencegate.release_mark($1, $2, $3, $4)`,
		claim.Key, claim.Holder.Wire(), claim.Token, principal,
	).Scan(&code, &mark)
	if err != nil {
		return wall("releasing the mark", claim.Key, err)
	}
	return refusal(claim, code, mark)
}

// Revocation cuts a holder off.
type Revocation struct {
	Key       lease.Key
	Block     time.Duration // how long nobody is granted the key; 0: not at all
	Reason    string        // for the history
	Principal string        // who revokes
}

// Revoke closes the mark, whoever holds it: when it returns, nothing is admitted
// under it any more. It waits for the write in flight, at most the connection's
// lock_timeout (ErrBusy). It returns the claim that was closed, with which the
// lease is found, and ErrNeverGranted if there is no mark.
func (m *Marks) Revoke(ctx context.Context, r Revocation) (lease.Claim, error) {
	closed := lease.Claim{Key: r.Key}
	var holder string
	err := m.moves.QueryRow(ctx, `SELECT token, holder FROM fencegate.revoke_mark($1, $2, $3, $4)`,
		r.Key, r.Block, r.Reason, r.Principal,
	).Scan(&closed.Token, &holder)
	if errors.Is(err, pgx.ErrNoRows) {
		return closed, ErrNeverGranted
	}
	if err == nil {
		closed.Holder, err = lease.ParseHolder(holder)
	}
	return closed, wall("revoking the mark", r.Key, err)
}

// Verify returns nil if the claim matches its mark now, else a *Refusal, and
// how long ago the mark was granted. It takes no lock: a nil answer can be out
// of date before it arrives.
func (m *Marks) Verify(ctx context.Context, claim lease.Claim) (age time.Duration, err error) {
	var code *Code
	var mark *lease.Token
	var ageMS *int64
	err = m.db.QueryRow(ctx, `SELECT code, mark, age_ms FROM fencegate.verdict($1, $2, $3)`,
		claim.Key, claim.Holder.Wire(), claim.Token,
	).Scan(&code, &mark, &ageMS)
	if err != nil {
		return 0, wall("verifying the claim on the mark", claim.Key, err)
	}
	if ageMS != nil {
		age = time.Duration(*ageMS) * time.Millisecond
	}
	return age, refusal(claim, code, mark)
}

// Admit queues the fence as the next statement of batch. Put it before the data
// and read its answer with Admitted: when one of the claims is not the one that
// its mark was granted to, it takes the whole transaction with it. claims has
// each key once, in byte order: marks are locked in that order.
func Admit(batch *pgx.Batch, claims []lease.Claim) {
	keys, holders, tokens := columns(claims)
	batch.Queue(`SELECT fencegate.admit($1, $2, $3, false)`, keys, holders, tokens)
}

// AdmitObserved is Admit for a write that is to be applied whatever the marks say:
// it locks those of claims that match and refuses nothing.
func AdmitObserved(batch *pgx.Batch, claims []lease.Claim) {
	keys, holders, tokens := columns(claims)
	batch.Queue(`SELECT fencegate.admit($1, $2, $3, true)`, keys, holders, tokens)
}

// Admitted reads the answer to Admit or AdmitObserved: nil, a *Refusal for each claim that
// failed, joined, or why it is not known.
func Admitted(results pgx.BatchResults, claims []lease.Claim) error {
	_, err := results.Exec()
	return Classify(claims, err)
}

// What a transaction evaluates first on a connection that a pooler lends out: it
// can be another database than the one that MeetDatabase met on it. Classify
// finds ErrStandby in the error.
const (
	Meeting = `fencegate.ensure_epoch()` // before a write
	Asking  = `fencegate.timeline()`     // before a read, which can't note a new epoch
)

// MeetDatabase makes sure that the life the database is in has its epoch. Every
// new connection of a gateway calls it, so that a promoted or restored database
// is noticed before anything is written to it.
func MeetDatabase(ctx context.Context, conn *pgx.Conn) error {
	var writable bool
	if err := conn.QueryRow(ctx, `SELECT NOT pg_is_in_recovery()`).Scan(&writable); err != nil {
		return fmt.Errorf("asking whether the database is a standby: %w", err)
	}
	if !writable {
		return ErrStandby
	}
	_, err := conn.Exec(ctx, `SELECT fencegate.ensure_epoch()`)
	if err != nil {
		return fmt.Errorf("recording the database's epoch: %w", err)
	}
	return nil
}
