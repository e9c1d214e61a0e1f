package statement

import "strings"

// castTypes are the types that a caller may name, by every name of theirs.
// None has a length, and none is a type that cuts a value without one.
var castTypes = typeNames(`
	bool boolean
	int2 smallint
	int4 int integer
	int8 bigint
	numeric decimal
	float4 real
	float8 double%precision
	text
	varchar character%varying
	bytea
	uuid
	date
	time time%without%time%zone
	timetz time%with%time%zone
	timestamp timestamp%without%time%zone
	timestamptz timestamp%with%time%zone
	interval
	json
	jsonb
	inet
	cidr
	macaddr
	money
	int4range
	int8range
	numrange
	daterange
	tsrange
	tstzrange`)

// typeNames reads lines of names of one type, PostgreSQL's own first. Each also
// has arrays.
func typeNames(lines string) map[string]string {
	types := map[string]string{}
	for line := range strings.Lines(lines) {
		names := strings.Fields(line)
		for _, name := range names {
			name = strings.ReplaceAll(name, "%", " ")
			types[name] = "pg_catalog." + names[0]
			types[name+"[]"] = "pg_catalog." + names[0] + "[]"
		}
	}
	return types
}

// KnownType reports whether name is a type that a select can cast to.
func KnownType(name string) bool { return castTypes[name] != "" }
