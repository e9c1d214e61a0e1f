// Package audit keeps the record of what was refused, in the protected database
// itself: a record is committed before the refusal's answer leaves.
//
// It decides nothing. A refusal that can't be recorded is still a refusal.
package audit

import (
	"time"

	"github.com/fencegate/fencegate/internal/lease"
)

// Disposition says what became of the act that a record is about.
type Disposition string

// The dispositions.
const (
	Refused Disposition = "refused" // a write that was turned away
	Event   Disposition = "event"   // a lost renewal or a late release; no write was involved
	// Admitted: a write to tables in observe mode, which was applied and would have
	// been turned away.
	Admitted Disposition = "admitted"
)

// Record is one refusal or event. Empty strings and a zero Mark are kept as NULL.
type Record struct {
	ID          int64     // set by the database
	OccurredAt  time.Time // set by the database
	Code        string
	Disposition Disposition
	Operation   string // insert, update, delete, renew, release
	Table       string // schema.table
	Claim       lease.Claim
	Mark        lease.Token // 0: the key was never granted, or is not known
	Origin      Origin
	Payload     string // JSON: what a write was to write, "" unless its tables say so; read only by Get

	HolderDigest string // set when read; writing takes Claim's
	Client       string // set by the database: who was granted the presented token
	Instance     string // the gateway that refused
}

// Origin is where a request came from.
type Origin struct {
	Principal     string
	RequestID     string
	RemoteAddress string
	PayloadSHA256 string // hex, "" if there was no body
	// IdempotencyKey is the caller's own name for the request, "" if none.
	IdempotencyKey string
}
