package statement

import (
	"slices"
	"strings"
)

// FilterOp is an operator of the filter grammar, as it is written.
type FilterOp string

// The operators that have a form of their own, and the two that make a group.
const (
	Eq         FilterOp = "eq"
	Neq        FilterOp = "neq"
	Gt         FilterOp = "gt"
	Gte        FilterOp = "gte"
	Lt         FilterOp = "lt"
	Lte        FilterOp = "lte"
	Like       FilterOp = "like"
	Ilike      FilterOp = "ilike"
	Match      FilterOp = "match"
	Imatch     FilterOp = "imatch"
	In         FilterOp = "in"
	Is         FilterOp = "is"
	IsDistinct FilterOp = "isdistinct"

	And FilterOp = "and"
	Or  FilterOp = "or"
)

// infix are the operators that stand between the column and one value.
var infix = map[FilterOp]string{
	Eq: "=", Neq: "<>", Gt: ">", Gte: ">=", Lt: "<", Lte: "<=",
	Like: "~~", Ilike: "~~*", Match: "~", Imatch: "~*", IsDistinct: "IS DISTINCT FROM",
	"cs": "@>", "cd": "<@", "ov": "&&",
	"sl": "<<", "sr": ">>", "nxr": "&<", "nxl": "&>", "adj": "-|-",
}

// searches are the full text searches, by what makes a query of the value.
var searches = map[FilterOp]string{
	"fts": "to_tsquery", "plfts": "plainto_tsquery", "phfts": "phraseto_tsquery", "wfts": "websearch_to_tsquery",
}

var isWords = map[string]string{
	"null": "IS NULL", "not_null": "IS NOT NULL",
	"true": "IS TRUE", "false": "IS FALSE", "unknown": "IS UNKNOWN",
}

// Quantifier makes an operator hold for any or all elements of an array.
type Quantifier string

// The quantifiers, as they are written.
const (
	Any Quantifier = "any"
	All Quantifier = "all"
)

var quantifiable = []FilterOp{Eq, Gt, Gte, Lt, Lte, Like, Ilike, Match, Imatch}

// Ops returns the operators of a single condition, sorted.
func Ops() []string {
	ops := []string{string(In), string(Is)}
	for op := range infix {
		ops = append(ops, string(op))
	}
	for op := range searches {
		ops = append(ops, string(op))
	}
	slices.Sort(ops)
	return ops
}

// KnownOp reports whether op is an operator of a single condition.
func KnownOp(op FilterOp) bool {
	return op == In || op == Is || infix[op] != "" || IsSearch(op)
}

// IsSearch reports whether op is a full text search.
func IsSearch(op FilterOp) bool { return searches[op] != "" }

// Quantifiable reports whether op can be asked of any or all of several values.
func Quantifiable(op FilterOp) bool { return slices.Contains(quantifiable, op) }

// KnownIs reports whether word can follow `is.`.
func KnownIs(word string) bool { return isWords[word] != "" }

// pattern gives like and ilike their wildcard, which needs no percent-encoding.
func (op FilterOp) pattern(value string) string {
	if op == Like || op == Ilike {
		return strings.ReplaceAll(value, "*", "%")
	}
	return value
}
