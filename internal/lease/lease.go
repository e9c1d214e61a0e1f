// Package lease is the vocabulary of the gateway: lock keys, holders, fencing
// tokens and lock templates, with their parsing and limits.
//
// It does no I/O and decides nothing about who may write: package fence is
// authoritative for tokens, package lockclient for who holds a lease now.
package lease

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// MaxBytes is the longest lock key or holder, in bytes after base64 decoding.
const MaxBytes = 512

// Key names what is locked: 1 to MaxBytes bytes of UTF-8 without NUL. The zero
// value is no key.
type Key string

// Holder identifies one acquisition of a lock key, never a worker: it is the
// secret that proves possession. 1 to MaxBytes bytes of any kind, since other
// lock clients use raw random bytes. The zero value is no holder.
type Holder string

// Token is a fencing token: 1 to 2^63-1, strictly increasing over the grants of
// one key. The zero value is no token.
type Token int64

// Claim is what a write presents: "I am Holder, and Key was granted to me under
// Token".
type Claim struct {
	Key    Key
	Holder Holder
	Token  Token
}

// NewHolder returns a holder of 128 random bits in hex.
func NewHolder() Holder {
	var raw [16]byte
	rand.Read(raw[:]) // never fails: crypto/rand aborts the program instead
	return Holder(hex.EncodeToString(raw[:]))
}

// Digest is what records and logs show of a holder: the first 16 hex digits of
// its SHA-256, enough to tell two holders apart and useless for writing.
func (h Holder) Digest() string {
	sum := sha256.Sum256([]byte(h.Wire()))
	return hex.EncodeToString(sum[:8])
}

// String returns the token in decimal digits, as it travels on the wire.
func (t Token) String() string { return strconv.FormatInt(int64(t), 10) }

// ParseToken reads `[1-9][0-9]{0,18}` up to 2^63-1 and nothing else: no sign,
// no leading zero, no space, no digits of another script.
func ParseToken(s string) (Token, error) {
	if s == "" || s[0] == '0' || len(s) > 19 {
		return 0, malformed("a token is 1 to 9223372036854775807 in decimal digits without sign or leading zero")
	}
	var n uint64
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, malformed("a token is decimal digits only")
		}
		n = n*10 + uint64(s[i]-'0') // 19 digits stay below 2^64
	}
	if n > 1<<63-1 {
		return 0, malformed("a token is at most 9223372036854775807")
	}
	return Token(n), nil
}
