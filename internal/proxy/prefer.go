package proxy

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/fencegate/fencegate/internal/gate"
)

// preferences is the Prefer header, parsed. The zero value prefers nothing.
type preferences struct {
	returning   string // minimal, headers-only, representation
	maxAffected int64  // -1: no bound
	count       bool
	strict      bool
	resolution  string // merge-duplicates, ignore-duplicates; "" none
	missing     string // default, null; "" as the call has it
	trial       bool   // tx=rollback
	timeZone    string
	applied     []string
	unknown     []string
}

// parsePrefer reads every Prefer header. A known preference with a value that
// this version does not have is an error under any handling: ignoring it could
// change what is written.
func parsePrefer(h http.Header) (preferences, error) {
	p := preferences{maxAffected: -1}
	seen := map[string]string{}
	for item := range strings.SplitSeq(strings.Join(h.Values("Prefer"), ","), ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		name, value, _ := strings.Cut(item, "=")
		name = strings.ToLower(strings.TrimSpace(name))
		value = strings.Trim(strings.TrimSpace(value), `"`)
		if before, given := seen[name]; given && before == value {
			continue // by a client's default headers and again by one of its methods
		} else if given {
			return p, badPreference("%s is given twice, as %s and %s", name, before, value)
		}
		seen[name] = value
		if err := p.set(name, value); err != nil {
			return p, err
		}
	}
	if p.strict && len(p.unknown) > 0 {
		return p, badPreference("unknown under handling=strict: %s", strings.Join(p.unknown, ", "))
	}
	return p, nil
}

func (p *preferences) set(name, value string) error {
	switch pair := name + "=" + value; {
	case pair == "return=minimal", pair == "return=headers-only", pair == "return=representation":
		p.returning = value
	case pair == "count=exact":
		p.count = true
	case pair == "handling=strict":
		p.strict = true
	case pair == "resolution=merge-duplicates", pair == "resolution=ignore-duplicates":
		p.resolution = value
	case pair == "missing=default", pair == "missing=null":
		p.missing = value
	case pair == "tx=rollback":
		p.trial = true
	case name == "timezone" && value != "":
		p.timeZone = value
	case pair == "handling=lenient", pair == "tx=commit":
	case name == "max-affected":
		n, err := strconv.ParseUint(value, 10, 62)
		if err != nil {
			return badPreference("max-affected must be a whole number, 0 or more")
		}
		p.maxAffected = int64(n)
	case name == "return", name == "count", name == "handling", name == "missing", name == "tx", name == "resolution", name == "timezone":
		return badPreference("%s is not supported by this version", pair)
	default:
		p.unknown = append(p.unknown, name)
		return nil
	}
	p.applied = append(p.applied, name+"="+value)
	return nil
}

// forNoInsert returns an error if something is preferred that only an insert has.
func (p preferences) forNoInsert() error {
	if p.resolution != "" || p.missing == "null" {
		return badPreference("resolution and missing=null are for inserts")
	}
	return nil
}

// forTransaction returns an error if something is preferred that a transaction
// says in its body, for each operation.
func (p preferences) forTransaction() error {
	if p.returning != "" || p.count || p.maxAffected >= 0 || p.resolution != "" || p.missing != "" {
		return badPreference("a transaction takes handling, tx and timezone; the rest is said by each operation, such as max_rows and returning")
	}
	return nil
}

func (p preferences) settings() gate.Settings { return gate.Settings{TimeZone: p.timeZone} }

func (p preferences) writeApplied(h http.Header) {
	if len(p.applied) > 0 {
		h.Set("Preference-Applied", strings.Join(p.applied, ", "))
	}
}

func badPreference(format string, args ...any) error {
	return &fault{status: http.StatusBadRequest, slug: "invalid_preference", parameter: "Prefer", detail: fmt.Sprintf(format, args...)}
}
