package locktest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fencegate/fencegate/internal/lease"
)

// The rules, in the order in which Rules names them.
const (
	OnlyIfFree       Rule = "a key is taken only if it is free"
	LostAnswer       Rule = "a take sent again after its answer was lost is the same take"
	OneWins          Rule = "of takes at the same time exactly one wins"
	Reads            Rule = "a reading tells the holder, and the time left in ms"
	ManyKeys         Rule = "many keys are read in their order, repeated ones too"
	OneMoment        Rule = "many keys are read at one moment"
	KeyBytes         Rule = "keys differ if a byte differs: braces, spaces, 512 bytes"
	HolderBytes      Rule = "a holder may be any bytes"
	Extends          Rule = "an extension sets the end to now + TTL, and does not add up"
	NeverRemade      Rule = "an ended lease is never made again by an extension"
	DropsOwn         Rule = "a drop deletes its own holder's lease and no other"
	DroppedIsOver    Rule = "a dropped lease can't be extended"
	TakenOver        Rule = "after its end the next holder takes it; the last one can neither extend nor drop it"
	EndsOnTime       Rule = "a lease is never alive past its end"
	ForgottenScripts Rule = "scripts that a server forgot are loaded again"
	ContextEnds      Rule = "a call ends with its context, as unavailable"
	FrozenServers    Rule = "servers that don't answer are unavailable, in bounded time"
	GoneServers      Rule = "servers that are gone are unavailable, in bounded time"
)

// Rules returns the names of all rules, in order.
func Rules() []Rule {
	var all []Rule
	for _, r := range append(rules[:len(rules):len(rules)], faults...) {
		all = append(all, r.Rule)
	}
	return all
}

// rules leave the servers as they are.
var rules = []trial{
	{OnlyIfFree, onlyIfFree}, {LostAnswer, lostAnswer}, {OneWins, oneWins}, {Reads, reads},
	{ManyKeys, manyKeys}, {OneMoment, oneMoment}, {KeyBytes, keyBytes}, {HolderBytes, holderBytes},
	{Extends, extends}, {NeverRemade, neverRemade}, {DropsOwn, dropsOwn}, {DroppedIsOver, droppedIsOver},
	{TakenOver, takenOver}, {EndsOnTime, endsOnTime}, {ContextEnds, contextEnds},
}

// faults come one after the other, once the others are done.
var faults = []trial{
	{ForgottenScripts, forgottenScripts}, {FrozenServers, frozenServers}, {GoneServers, goneServers},
}

func onlyIfFree(t *testing.T, s *suite) {
	key, other := s.key(), s.key()
	s.wantFree(t, key)
	began := time.Now()
	if r := s.take(t, key, "first", long); r.Holder != "first" || r.Remaining > long || r.Remaining < long-slack(long)-time.Since(began) {
		t.Errorf("the take says %+v", r)
	}
	set := time.Now()
	taken, r, err := s.Store.Take(t.Context(), key, "second", 2*long)
	if err != nil || taken || r.Holder != "first" {
		t.Fatalf("a second take: %t %+v %v", taken, r, err)
	}
	wantLeft(t, r.Remaining, long, began, set, set)
	s.wantHeld(t, key, "first")
	s.take(t, other, "second", long)
}

func lostAnswer(t *testing.T, s *suite) {
	key := s.key()
	began := time.Now()
	s.take(t, key, "same", long)
	set := time.Now()
	r := s.take(t, key, "same", 2*long)
	wantLeft(t, r.Remaining, long, began, set, set)
}

func oneWins(t *testing.T, s *suite) {
	for range 5 {
		key := s.key()
		var won atomic.Int64
		var all sync.WaitGroup
		start := make(chan struct{})
		for range 8 {
			holder := lease.NewHolder()
			all.Go(func() {
				<-start
				taken, r, err := s.Store.Take(t.Context(), key, holder, long)
				if err != nil || !r.Live() {
					t.Errorf("taking: %+v %v", r, err)
				}
				if taken {
					won.Add(1)
				}
			})
		}
		close(start)
		all.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d takes won", won.Load())
		}
	}
}

func reads(t *testing.T, s *suite) {
	for _, ttl := range []time.Duration{5 * time.Second, 12345 * time.Millisecond, time.Hour} {
		key, holder := s.key(), lease.NewHolder()
		began := time.Now()
		s.take(t, key, holder, ttl)
		set := time.Now()
		for range 3 {
			asked := time.Now()
			wantLeft(t, s.wantHeld(t, key, holder).Remaining, ttl, began, set, asked)
		}
	}
}

func manyKeys(t *testing.T, s *suite) {
	var keys []lease.Key
	for i := range 12 {
		keys = append(keys, s.key())
		if i%3 != 0 {
			s.take(t, keys[i], lease.Holder(fmt.Sprint("holder ", i)), long)
		}
	}
	asked := append(keys, keys[4], keys[3], keys[11], keys[4])
	for i, r := range s.read(t, asked...) {
		n := indexOf(keys, asked[i])
		want := lease.Holder(fmt.Sprint("holder ", n))
		if held := n%3 != 0; held && !r.HeldBy(want) || !held && r.Live() {
			t.Errorf("place %d, key %d: %+v", i, n, r)
		}
	}
}

func indexOf(keys []lease.Key, key lease.Key) int {
	for i, k := range keys {
		if k == key {
			return i
		}
	}
	return -1
}

// oneMoment has a worker hold at least one of two keys at every moment.
func oneMoment(t *testing.T, s *suite) {
	keys := []lease.Key{s.key(), s.key()}
	s.take(t, keys[0], "worker", long)
	done := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { done <- handOver(ctx, s, keys) }()
	for range 300 {
		if r := s.read(t, keys...); !r[0].Live() && !r[1].Live() {
			t.Fatal("both were free")
		}
		if r := s.read(t, keys[1], keys[0]); !r[0].Live() && !r[1].Live() {
			t.Fatal("both were free")
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func handOver(ctx context.Context, s *suite, keys []lease.Key) error {
	alive := context.WithoutCancel(ctx)
	for i := 0; ctx.Err() == nil; i++ {
		if taken, r, err := s.Store.Take(alive, keys[(i+1)%2], "worker", long); err != nil || !taken {
			return fmt.Errorf("taking: %t %+v %w", taken, r, err)
		}
		if dropped, err := s.Store.Drop(alive, keys[i%2], "worker"); err != nil || !dropped {
			return fmt.Errorf("dropping: %t %w", dropped, err)
		}
	}
	return nil
}

func keyBytes(t *testing.T, s *suite) {
	base := string(s.key())
	var keys []lease.Key
	for _, end := range []string{
		"", " ", "a", "A", "a ", " a", "ä", "a\u0308", "{a}", "{a}b", "{}", "{", "}", "a{b}{c}", "%", "_", "\\", "'", "\"", "*", "[a]", "/", "../x",
		"\n", "\r\n", "\t", "\x01", "\x7f", "日本", "🔒", "base64:YQ==", "NULL", "-1", strings.Repeat("x", lease.MaxBytes-len(base)), strings.Repeat("é", (lease.MaxBytes-len(base))/2),
	} {
		keys = append(keys, lease.Key(base+end))
	}
	keys = append(keys, lease.Key("{"+base+"}"), lease.Key(" "+base), lease.Key("-"+base))
	for i, key := range keys {
		s.take(t, key, lease.Holder(fmt.Sprint(i)), long)
	}
	for i, r := range s.read(t, keys...) {
		if !r.HeldBy(lease.Holder(fmt.Sprint(i))) {
			t.Errorf("key %q: %+v", keys[i], r)
		}
	}
	for i, key := range keys {
		holder := lease.Holder(fmt.Sprint(i))
		s.wantExtended(t, true, key, holder, long)
		s.wantDropped(t, true, key, holder)
	}
	for i, r := range s.read(t, keys...) {
		if r.Live() {
			t.Errorf("key %q: %+v", keys[i], r)
		}
	}
}

func holderBytes(t *testing.T, s *suite) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for _, holder := range []lease.Holder{
		lease.Holder(every), "\x00", "\xff\xfe", "a,b", " a ", "a\u0308", "base64:", "base64:YQ==", "0", "nil", "{}", `{"holder":"x"}`,
		lease.Holder(strings.Repeat("\x80", lease.MaxBytes)),
	} {
		key := s.key()
		s.take(t, key, holder, long)
		s.wantHeld(t, key, holder)
		s.wantExtended(t, false, key, holder+"x", long)
		s.wantDropped(t, false, key, holder[:len(holder)-1]+"\x02")
		s.wantExtended(t, true, key, holder, long)
		s.wantDropped(t, true, key, holder)
	}
}

func extends(t *testing.T, s *suite) {
	key := s.key()
	s.take(t, key, "me", long)
	for _, ttl := range []time.Duration{2 * long, 2 * long, 10 * time.Second, 7 * time.Second, long} {
		began := time.Now()
		s.wantExtended(t, true, key, "me", ttl)
		asked := time.Now()
		wantLeft(t, s.wantHeld(t, key, "me").Remaining, ttl, began, asked, asked)
	}
	s.wantExtended(t, false, key, "another", 2*long)
	if r := s.wantHeld(t, key, "me"); r.Remaining > long {
		t.Errorf("another one's extension left %s", r.Remaining)
	}
	began := time.Now()
	s.wantExtended(t, true, key, "me", short)
	s.expired(t, key, short, began, time.Now())
}

func neverRemade(t *testing.T, s *suite) {
	key := s.key()
	s.wantExtended(t, false, key, "me", long)
	s.wantFree(t, key)
	began := time.Now()
	s.take(t, key, "me", short)
	s.expired(t, key, short, began, time.Now())
	s.wantExtended(t, false, key, "me", long)
	s.wantFree(t, key)
	s.wantDropped(t, false, key, "me")
}

func dropsOwn(t *testing.T, s *suite) {
	key := s.key()
	s.wantDropped(t, false, key, "me")
	s.take(t, key, "me", long)
	s.wantDropped(t, false, key, "another")
	s.wantDropped(t, false, key, "ME")
	s.wantHeld(t, key, "me")
	s.wantDropped(t, true, key, "me")
	s.wantDropped(t, false, key, "me")
	s.wantFree(t, key)
	s.take(t, key, "another", long)
}

func droppedIsOver(t *testing.T, s *suite) {
	key := s.key()
	s.take(t, key, "me", long)
	s.wantDropped(t, true, key, "me")
	s.wantExtended(t, false, key, "me", long)
	s.wantFree(t, key)
	s.take(t, key, "next", long)
	s.wantExtended(t, false, key, "me", 2*long)
	s.wantHeld(t, key, "next")
}

func takenOver(t *testing.T, s *suite) {
	key := s.key()
	began := time.Now()
	s.take(t, key, "late", short)
	late := time.Now()
	s.expired(t, key, short, began, late)
	began = s.takeOver(t, key, "next", long, late.Add(short))
	set := time.Now()
	s.wantExtended(t, false, key, "late", 2*long)
	s.wantDropped(t, false, key, "late")
	wantLeft(t, s.wantHeld(t, key, "next").Remaining, long, began, set, set)
}

// endsOnTime polls leases of several lengths until their ends, the shortest first.
func endsOnTime(t *testing.T, s *suite) {
	type running struct {
		key        lease.Key
		ttl        time.Duration
		began, set time.Time
	}
	var all []running
	for _, ttl := range []time.Duration{300 * time.Millisecond, 700 * time.Millisecond, 1001 * time.Millisecond, 2 * time.Second} {
		one := running{key: s.key(), ttl: ttl, began: time.Now()}
		if r := s.take(t, one.key, "me", ttl); r.Remaining > ttl {
			t.Fatalf("taken for %s, for %s", ttl, r.Remaining)
		}
		one.set = time.Now()
		all = append(all, one)
	}
	for _, one := range all {
		s.expired(t, one.key, one.ttl, one.began, one.set)
	}
}
