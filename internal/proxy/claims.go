package proxy

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/lease"
)

// parseClaim reads the three headers that every write carries.
func parseClaim(h http.Header) (claim lease.Claim, err error) {
	key, err := oneHeader(h, "Lock-Key")
	if err != nil {
		return claim, err
	}
	holder, err := oneHeader(h, "Lock-Holder")
	if err != nil {
		return claim, err
	}
	token, err := oneHeader(h, "Fencing-Token")
	if err != nil {
		return claim, err
	}
	if claim.Key, err = lease.ParseKey(key); err != nil {
		return claim, malformedFencing("Lock-Key", err)
	}
	if claim.Holder, err = lease.ParseHolder(holder); err != nil {
		return claim, malformedFencing("Lock-Holder", err)
	}
	if claim.Token, err = lease.ParseToken(token); err != nil {
		return claim, malformedFencing("Fencing-Token", err)
	}
	return claim, nil
}

func oneHeader(h http.Header, name string) (string, error) {
	switch values := h.Values(name); len(values) {
	case 0:
		return "", &fault{status: http.StatusPreconditionRequired, slug: "fencing_required", parameter: name,
			detail: "the header " + name + " is missing; acquire a lease at /v1/leases and send the headers of its answer"}
	case 1:
		return values[0], nil
	default:
		return "", malformedFencing(name, errors.New("it is given more than once"))
	}
}

func malformedFencing(parameter string, err error) error {
	return &fault{status: http.StatusBadRequest, slug: "fencing_malformed", parameter: parameter,
		detail: fmt.Sprintf("%s: %s", parameter, err)}
}

// principal is who authenticate found; nobody before it did.
func principal(r *http.Request) auth.Principal { return visitOf(r).principal }

func origin(r *http.Request) audit.Origin {
	return audit.Origin{
		Principal:     principal(r).Name,
		RequestID:     requestID(r),
		RemoteAddress: remoteAddress(r),
	}
}
