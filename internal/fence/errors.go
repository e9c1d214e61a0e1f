package fence

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencegate/fencegate/internal/lease"
)

// Code says why the fence refused a claim. The codes are part of the contract.
type Code string

// What the marks alone can refuse for.
const (
	StaleToken      Code = "stale_token"
	HolderMismatch  Code = "holder_mismatch"
	TokenNotGranted Code = "token_not_granted"
	LeaseReleased   Code = "lease_released"
	LeaseRevoked    Code = "lease_revoked"
	EpochChanged    Code = "epoch_changed"
)

// ErrRefused is wrapped by every Refusal.
var ErrRefused = errors.New("refused by the fence")

// ErrLostRace says that the mark moved between reading and raising it.
var ErrLostRace = errors.New("the mark moved meanwhile")

// ErrBlocked says that the key was revoked and can't be granted yet.
var ErrBlocked = errors.New("the lock key is revoked and blocked")

// ErrNeverGranted says that the key has no mark.
var ErrNeverGranted = errors.New("the lock key was never granted")

// ErrBusy says that the mark's row stayed locked past the lock_timeout: the
// write in flight under the old token is still running.
var ErrBusy = errors.New("the mark is locked by a write in flight")

// ErrStandby says that the database is a standby, which takes no writes.
var ErrStandby = errors.New("the database is a standby: it takes no writes")

// Refusal is a claim that the mark decides against. It is final: no waiting
// makes the claim right again.
type Refusal struct {
	Code  Code
	Claim lease.Claim
	Mark  lease.Token // 0: the key was never granted
}

func (r *Refusal) Error() string {
	if r.Mark == 0 {
		return fmt.Sprintf("%s: token %s of %q was never granted", r.Code, r.Claim.Token, r.Claim.Key)
	}
	return fmt.Sprintf("%s: token %s of %q, the mark is at %s", r.Code, r.Claim.Token, r.Claim.Key, r.Mark)
}

// Unwrap makes errors.Is(err, ErrRefused) decide.
func (r *Refusal) Unwrap() error { return ErrRefused }

// The private SQLSTATEs that the functions of schema fencegate raise.
const (
	stateRefused   = "FG001"
	lockNotGranted = "55P03"
	notInState     = "55000" // what functions about the running log raise on a standby, and others elsewhere
)

// wall turns what the database answered about claims on key into this room's
// own errors; what it doesn't know stays wrapped.
func wall(act string, key lease.Key, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s of %q: %w", act, key, classify(err))
}

// Classify turns an error of a transaction that passes the fence for claims into
// this room's own; what it doesn't know stays wrapped.
func Classify(claims []lease.Claim, err error) error {
	var pg *pgconn.PgError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &pg) && pg.Code == stateRefused:
		return parseRefusals(claims, pg.Detail)
	}
	return fmt.Errorf("passing the fence: %w", classify(err))
}

func classify(err error) error {
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && pg.Code == lockNotGranted:
		return fmt.Errorf("%w: %w", ErrBusy, err)
	case errors.As(err, &pg) && pg.Code == notInState && strings.HasPrefix(pg.Routine, "pg_"):
		return fmt.Errorf("%w: %w", ErrStandby, err)
	}
	return err
}

// parseRefusals reads what fencegate.admit tells of each claim that failed, or
// fencegate.claim_answer of a request that was refused before.
func parseRefusals(claims []lease.Claim, detail string) error {
	if strings.HasPrefix(detail, "{") {
		detail = "[" + detail + "]"
	}
	var verdicts []struct {
		Claim int          `json:"claim"`
		Code  *Code        `json:"code"`
		Mark  *lease.Token `json:"mark,string"`
	}
	if err := json.Unmarshal([]byte(detail), &verdicts); err != nil {
		return fmt.Errorf("reading the fence's refusal %q: %w", detail, err)
	}
	var refusals []error
	for _, v := range verdicts {
		if v.Code == nil || v.Claim < 0 || v.Claim >= len(claims) {
			return fmt.Errorf("the fence's refusal %q makes no sense", detail)
		}
		refusals = append(refusals, refusal(claims[v.Claim], v.Code, v.Mark))
	}
	if len(refusals) == 0 {
		return errors.New("the fence refused without saying why")
	}
	return errors.Join(refusals...)
}

// refusal makes an error of a verdict; no code is no error.
func refusal(claim lease.Claim, code *Code, mark *lease.Token) error {
	if code == nil {
		return nil
	}
	r := &Refusal{Code: *code, Claim: claim}
	if mark != nil {
		r.Mark = *mark
	}
	return r
}
