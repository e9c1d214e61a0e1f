package dashboard

import (
	"slices"

	"github.com/fencegate/fencegate/internal/fence"
	"github.com/fencegate/fencegate/internal/gate"
)

// code is a reason to refuse.
type code struct {
	Name    string
	Meaning string
	Foreign bool // not lateness: somebody sends what he was not given
	Observe bool // on record only in observe mode: enforced, it is no matter of locks
}

// codes are all there are, in the order in which they are offered.
var codes = []code{
	{string(fence.StaleToken), "somebody took over, and this worker did not notice", false, false},
	{string(gate.LeaseExpired), "the lease ran out and nobody had taken over yet: renewals came too late", false, false},
	{string(gate.LeaseLost), "the lease ran out and another worker had it already", false, false},
	{string(fence.LeaseReleased), "a write after the worker’s own release", false, false},
	{string(fence.LeaseRevoked), "an operator had cut the holder off", false, false},
	{string(fence.EpochChanged), "the lock was granted before a database failover or restore", false, false},
	{string(gate.LockScope), "the write names, or makes, a row that its lock key does not cover", false, false},
	{string(fence.HolderMismatch), "the right number with another one’s holder: guessed or copied", true, false},
	{string(fence.TokenNotGranted), "a token that no gateway on this database handed out", true, false},
	{string(gate.FencingRequired), "the write named no lock", false, true},
	{string(gate.FencingMalformed), "what the write named as its lock can’t be read", false, true},
	{string(gate.LockServiceUnavailable), "the lock service did not answer", false, true},
}

// codeOf returns what is known about a code, or the code alone.
func codeOf(name string) code {
	if i := slices.IndexFunc(codes, func(c code) bool { return c.Name == name }); i >= 0 {
		return codes[i]
	}
	return code{Name: name}
}
