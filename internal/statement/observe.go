package statement

import (
	"fmt"
	"strings"

	"github.com/fencegate/fencegate/internal/lease"
)

// A statement of an observed mutation touches the rows that its filters name, in
// scope or not, and notes in its transaction what an enforced one would have been
// refused for. Without claims there is nothing to compare rows with.

// Observe makes a statement note what it would have been refused for.
type Observe struct {
	Operation int // the mutation's place in its transaction, from 0
}

// Observed reports whether the target of m is in observe mode.
func (m Mutation) Observed() bool {
	if m.Routine != nil {
		return m.Routine.Observe
	}
	return m.Table != nil && m.Table.Observe
}

// Lock is the lock template of m's target.
func (m Mutation) Lock() lease.Template {
	if m.Routine != nil {
		return m.Routine.Lock
	}
	return m.Table.Lock
}

// unpinned stands for the key of filters that pin none; it equals no other.
const unpinned = "NULL::pg_catalog.text"

// blind reports whether rows are not compared with lock keys at all.
func (m Mutation) blind(claims []lease.Claim) bool { return m.Observe != nil && len(claims) == 0 }

// noted is condition as something that always holds and is noted when it does not.
func (m Mutation) noted(b *builder, condition string) string {
	return fmt.Sprintf("fencegate.note_covered(%s, %s)", condition, b.param(int32(m.Observe.Operation)))
}

// checkedRows is the call that checks how many rows were touched and, by condition
// and the number of uncovered rows, their scope.
func (m Mutation) checkedRows(b *builder, blind bool, condition, uncovered, least, most string) string {
	if m.Observe != nil && !blind {
		condition, uncovered = m.noted(b, condition+" AND "+uncovered+" = 0"), "0"
	}
	return fmt.Sprintf("fencegate.check_rows(%s, %s, a.affected, %s, %s)", condition, uncovered, least, most)
}

// passedToken is tokenOf with those tokens only that are their marks'; NULL in
// place of others.
func passedToken(b *builder, rendered string, claims []lease.Claim) string {
	keys, tokens := make([]string, len(claims)), make([]string, len(claims))
	for i, claim := range claims {
		keys[i] = string(claim.Key)
		tokens[i] = fmt.Sprintf("fencegate.passed_token(%s, %s, %s)", b.param(keys[i]), b.param(claim.Holder.Wire()), b.param(int64(claim.Token)))
	}
	if len(claims) == 1 {
		return tokens[0]
	}
	return fmt.Sprintf("(ARRAY[%s])[array_position(%s::pg_catalog.text[], %s)]",
		strings.Join(tokens, ", "), b.param(arrayLiteral(keys)), rendered)
}
