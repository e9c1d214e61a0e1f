package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"time"

	"github.com/fencegate/fencegate/internal/auth"
)

// keyPrefix begins every API key, for people and scanners to know one by.
const keyPrefix = "fgk_"

// Key is an API key as it is kept: not the key, but its hash. It needs no slow
// hash, since nobody can guess 256 random bits.
type Key struct {
	ID      string // not secret: names the key in logs
	SHA256  [sha256.Size]byte
	Expires time.Time // the zero value: never
}

type keyed struct {
	Key
	principal auth.Principal
}

// NewKey makes a key: fgk_ID_SECRET, which is shown once, and what is kept of it.
func NewKey(expires time.Time) (text string, key Key) {
	var id [6]byte
	var secret [32]byte
	rand.Read(id[:]) // never fails: crypto/rand aborts the program instead
	rand.Read(secret[:])
	key = Key{ID: hex.EncodeToString(id[:]), Expires: expires}
	text = keyPrefix + key.ID + "_" + base64.RawURLEncoding.EncodeToString(secret[:])
	key.SHA256 = sha256.Sum256([]byte(text))
	return text, key
}

func (i *Identity) keyHolder(text string) (auth.Principal, error) {
	id, _, _ := strings.Cut(strings.TrimPrefix(text, keyPrefix), "_")
	key, known := i.keys[id]
	sum := sha256.Sum256([]byte(text))
	switch {
	case subtle.ConstantTimeCompare(sum[:], key.SHA256[:]) != 1 || !known:
		return auth.Principal{}, &Rejection{badCredentials, "no such API key"}
	case !key.Expires.IsZero() && !time.Now().Before(key.Expires):
		return auth.Principal{}, &Rejection{"the API key " + id + " has expired", "of " + key.principal.Name}
	}
	return key.principal, nil
}
