package auth

import (
	"maps"
	"slices"
)

// DatabaseRole is the role of PostgreSQL that p's statements run as; "": the gateway's
// own.
func (p Principal) DatabaseRole() string {
	if p.rights == nil || len(p.rights.runsAs) == 0 {
		return ""
	}
	return p.rights.runsAs[0]
}

// Torn reports whether p's roles would run as different database roles. A transaction
// runs as one: p has no table then, and may call nothing.
func (p Principal) Torn() bool { return p.rights != nil && p.rights.torn() }

// Claims are what is known of p by name, for policies of the database to ask.
func (p Principal) Claims() map[string]string {
	claims := maps.Clone(p.claims)
	if claims == nil {
		claims = map[string]string{}
	}
	return claims
}

func (r *rights) torn() bool {
	return slices.ContainsFunc(r.runsAs, func(role string) bool { return role != r.runsAs[0] })
}
