// Package auth says what a principal may do. Whatever is not allowed here is
// denied. It is pure: who a request comes from is package identity's business.
package auth

import (
	"errors"
	"fmt"
	"slices"

	"github.com/fencegate/fencegate/internal/catalog"
	"github.com/fencegate/fencegate/internal/lease"
)

// ErrDenied is wrapped by every refusal of this package.
var ErrDenied = errors.New("not allowed")

// Principal is who a request comes from. The zero value is nobody, and one that
// is made by hand may do nothing.
type Principal struct {
	Name   string
	Admin  bool // may see everybody's leases and refusals, and cut holders off
	rights *rights
	claims map[string]string // what lock key patterns may name
}

// Limits bound what one principal asks for at a time.
type Limits struct {
	InFlight  int // requests; 0: as many as anybody
	PerSecond int // requests, on the average; 0: no bound
}

// Limits returns p's own.
func (p Principal) Limits() Limits {
	if p.rights == nil {
		return Limits{}
	}
	return p.rights.limits
}

// Anyone is the principal of every request under `auth: none`: it may do all that
// is configured.
var Anyone = Unrestricted("anyone")

// Unrestricted returns an administrator who may do all that is configured.
func Unrestricted(name string) Principal {
	return Principal{Name: name, Admin: true, rights: &rights{all: true}}
}

// Narrow returns table as it is to p. It is not there, as an error that wraps
// catalog.ErrUnknownTable says, if p may do nothing with it.
func (p Principal) Narrow(table *catalog.Table) (*catalog.Table, error) {
	if p.rights != nil && p.rights.all {
		return table, nil
	}
	if n := p.rights.table(table); n != nil {
		return table.Narrowed(n), nil
	}
	return nil, catalog.ErrUnknownTable
}

// View returns tables as they are to p: what it may do nothing with is not there.
func (p Principal) View(tables *catalog.Snapshot) *catalog.Snapshot {
	if p.rights == nil {
		return (&rights{}).view(tables)
	}
	return p.rights.view(tables)
}

// Allow returns nil if p may do op on table, which is narrowed to p.
func Allow(p Principal, table *catalog.Table, op catalog.Operation) error {
	if p.Name == "" {
		return errNobody
	}
	if !table.Allows(op) {
		return fmt.Errorf("%w: %s is not configured for table %q", ErrDenied, op, table.Name)
	}
	return nil
}

// AllowCall returns nil if p may call routine. It is not there if p may not, as an
// error that wraps catalog.ErrUnknownRoutine says.
func AllowCall(p Principal, routine *catalog.Routine) error {
	if p.Name == "" {
		return errNobody
	}
	if !p.rights.call(routine) {
		return catalog.ErrUnknownRoutine
	}
	return nil
}

// AllowKey returns nil if p may hold key, and see what becomes of it.
func AllowKey(p Principal, key lease.Key) error {
	if p.Name == "" {
		return errNobody
	}
	if p.rights == nil || !p.rights.holds(key, p.claims) {
		return &KeyDenied{Key: key}
	}
	return nil
}

// MayHoldAll reports whether p may hold every key of a lock.
func MayHoldAll(p Principal, lock lease.Template) bool {
	return p.Name != "" && p.rights != nil && (p.rights.all ||
		slices.ContainsFunc(p.rights.locks, func(pattern lease.Pattern) bool { return pattern.MatchesAll(lock, p.claims) }))
}

// KeyDenied is the refusal of a lock key, which says nothing of whether anybody
// holds it.
type KeyDenied struct{ Key lease.Key }

func (e *KeyDenied) Error() string { return fmt.Sprintf("not allowed: the lock key %q", e.Key.Wire()) }

// Unwrap returns ErrDenied.
func (e *KeyDenied) Unwrap() error { return ErrDenied }

// AllowLook returns nil if p may see what becomes of key.
func AllowLook(p Principal, key lease.Key) error {
	if p.Admin && p.Name != "" {
		return nil
	}
	return AllowKey(p, key)
}

// AllowAdmin returns nil if p may do what is for administrators.
func AllowAdmin(p Principal, act string) error {
	if p.Name == "" {
		return errNobody
	}
	if !p.Admin {
		return fmt.Errorf("%w: %s is for administrators", ErrDenied, act)
	}
	return nil
}

var errNobody = fmt.Errorf("%w: the request has no principal", ErrDenied)
