package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"

	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/gate"
	"github.com/fencegate/fencegate/internal/lease"
)

// parseClaim reads the three headers that every write carries. With an error the
// claim has what could be read.
func parseClaim(h http.Header) (claim lease.Claim, err error) {
	key, noKey := oneHeader(h, "Lock-Key")
	holder, noHolder := oneHeader(h, "Lock-Holder")
	token, noToken := oneHeader(h, "Fencing-Token")
	var wrong [3]error
	claim.Key, wrong[0] = lease.ParseKey(key)
	claim.Holder, wrong[1] = lease.ParseHolder(holder)
	claim.Token, wrong[2] = lease.ParseToken(token)
	if err := cmp.Or(noKey, noHolder, noToken); err != nil {
		return claim, err
	}
	for i, name := range []string{"Lock-Key", "Lock-Holder", "Fencing-Token"} {
		if wrong[i] != nil {
			return claim, malformedFencing(name, wrong[i])
		}
	}
	return claim, nil
}

// unclaimed makes of a lock that is missing, or can't be read, what a write in
// observe mode is recorded for; nil of any other error.
func unclaimed(err error, claim lease.Claim) *gate.Unclaimed {
	var f *fault
	if errors.As(err, &f) && (f.slug == string(gate.FencingRequired) || f.slug == string(gate.FencingMalformed)) {
		return &gate.Unclaimed{Code: fence.Code(f.slug), Claim: claim, Fault: err}
	}
	return nil
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
