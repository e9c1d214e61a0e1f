package lease

import (
	"regexp"
	"strings"
)

// Pattern is a set of lock keys, such as "tenant:{claim.tenant}:*": literal text,
// claims of whoever asks in braces, and a * at the end if more may follow. The
// zero value matches no key.
type Pattern struct {
	template Template // its columns are claims
	prefix   bool
}

const (
	claimPrefix = "claim."
	// claimEnds are what a claim may be followed by: no claim that is filled in
	// contains them, so that the key of one tenant is never within another's.
	claimEnds = ":/|#"
)

// plainClaim is what a claim must be to be part of a lock key.
var plainClaim = regexp.MustCompile(`^[A-Za-z0-9_.@-]{1,128}$`)

// ParsePattern reads a pattern. "{{" and "}}" stand for single braces; "*" alone
// is every key.
func ParsePattern(s string) (Pattern, error) {
	text, prefix := strings.CutSuffix(s, "*")
	switch {
	case strings.Contains(text, "*"):
		return Pattern{}, malformed("lock key pattern %q: * stands at the end only", s)
	case text == "" && prefix:
		return Pattern{template: Template{Literals: []string{""}}, prefix: true}, nil
	}
	t, err := ParseTemplate(text)
	if err != nil {
		return Pattern{}, err
	}
	for i, name := range t.Columns {
		claim, ok := strings.CutPrefix(name, claimPrefix)
		if !ok || claim == "" {
			return Pattern{}, malformed("lock key pattern %q: a placeholder is {claim.NAME}", s)
		}
		next := t.Literals[i+1]
		last := i == len(t.Columns)-1 && next == "" && !prefix
		if !last && (next == "" || !strings.Contains(claimEnds, next[:1])) {
			return Pattern{}, malformed("lock key pattern %q: %s must be followed by one of %s or end it, or one value's keys could be within another's", s, name, claimEnds)
		}
	}
	return Pattern{template: t, prefix: prefix}, nil
}

// Matches reports whether key is one of the pattern's for somebody with these
// claims. A claim that is missing, or holds anything but letters, digits and _ . @
// -, matches nothing.
func (p Pattern) Matches(key Key, claims map[string]string) bool {
	if p.template.Literals == nil {
		return false
	}
	rest := string(key)
	for i, literal := range p.template.Literals {
		if i > 0 {
			value := claims[strings.TrimPrefix(p.template.Columns[i-1], claimPrefix)]
			if !plainClaim.MatchString(value) {
				return false
			}
			literal = value + literal
		}
		var ok bool
		if rest, ok = strings.CutPrefix(rest, literal); !ok {
			return false
		}
	}
	return p.prefix || rest == ""
}

// MatchesAll reports whether every key of t is one of the pattern's for somebody with
// these claims.
func (p Pattern) MatchesAll(t Template, claims map[string]string) bool {
	return (p.prefix || t.WholeTable()) && p.Matches(Key(t.Literals[0]), claims)
}

// Claims names the claims that the pattern needs.
func (p Pattern) Claims() []string {
	names := make([]string, len(p.template.Columns))
	for i, name := range p.template.Columns {
		names[i] = strings.TrimPrefix(name, claimPrefix)
	}
	return names
}

// String returns the pattern as it is written.
func (p Pattern) String() string {
	text := p.template.String()
	if p.prefix {
		text += "*"
	}
	return text
}
