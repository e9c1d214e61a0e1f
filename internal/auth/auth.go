// Package auth says who a request comes from and what that principal may do.
// Whatever is not allowed here is denied.
package auth

import (
	"errors"
	"fmt"

	"github.com/fencegate/fencegate/internal/catalog"
)

// ErrDenied is wrapped by every refusal of Allow.
var ErrDenied = errors.New("not allowed")

// Principal is who a request comes from. The zero value is nobody.
type Principal struct {
	Name  string
	Admin bool // may cut holders off
}

// Anyone is the principal of every request under `auth: none`.
var Anyone = Principal{Name: "anyone", Admin: true}

// Allow returns nil if p may do op on table. Pure: no I/O, no clock.
func Allow(p Principal, table *catalog.Table, op catalog.Operation) error {
	if p.Name == "" {
		return errNobody
	}
	if !table.Allows(op) {
		return fmt.Errorf("%w: %s is not configured for table %q", ErrDenied, op, table.Name)
	}
	return nil
}

// AllowCall returns nil if p may call routine: what is configured may be called.
func AllowCall(p Principal, _ *catalog.Routine) error {
	if p.Name == "" {
		return errNobody
	}
	return nil
}

// AllowRevoke returns nil if p may cut the holder of a lock key off.
func AllowRevoke(p Principal) error {
	if p.Name == "" {
		return errNobody
	}
	if !p.Admin {
		return fmt.Errorf("%w: revoking is for administrators", ErrDenied)
	}
	return nil
}

var errNobody = fmt.Errorf("%w: the request has no principal", ErrDenied)
