package lease

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// ErrMalformed is wrapped by every parsing error of this package; the text
// after it says what is wrong, never repeating the value.
var ErrMalformed = errors.New("malformed")

// base64Prefix marks a key or holder that plain text can't carry.
const base64Prefix = "base64:"

// ParseKey reads a lock key as a header or a JSON string carries it: plain
// text, or "base64:" and standard base64 of UTF-8 text.
func ParseKey(s string) (Key, error) {
	text, err := parse(s)
	if err != nil {
		return "", err
	}
	// Marks are keyed by PostgreSQL text, which holds neither.
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return "", malformed("the base64 of a lock key must hold UTF-8 without NUL")
	}
	return Key(text), nil
}

// ParseHolder reads a holder as a header or a JSON string carries it: plain
// text, or "base64:" and standard base64 of any bytes.
func ParseHolder(s string) (Holder, error) {
	text, err := parse(s)
	return Holder(text), err
}

// Wire returns the key's one written form, as headers, JSON and logs carry it.
func (k Key) Wire() string { return wire(string(k)) }

// Wire returns the holder's one written form, which is also how marks store it.
func (h Holder) Wire() string { return wire(string(h)) }

// Header returns the key as every HTTP client can send it: browsers turn other
// characters than ASCII into bytes that aren't UTF-8, or refuse to.
func (k Key) Header() string { return header(string(k)) }

// Header returns the holder as every HTTP client can send it.
func (h Holder) Header() string { return header(string(h)) }

func wire(s string) string {
	if checkPlain(s) == nil && !strings.HasPrefix(s, base64Prefix) {
		return s
	}
	return encode(s)
}

func header(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII }) {
		return encode(s)
	}
	return wire(s)
}

func encode(s string) string {
	return base64Prefix + base64.StdEncoding.EncodeToString([]byte(s))
}

func parse(s string) (string, error) {
	encoded, isBase64 := strings.CutPrefix(s, base64Prefix)
	if !isBase64 {
		return s, checkPlain(s)
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || strings.ContainsAny(encoded, "\r\n") { // which the decoder skips
		return "", malformed("what follows base64: is not standard base64 with padding")
	}
	return string(raw), checkLength(string(raw))
}

func checkPlain(s string) error {
	if err := checkLength(s); err != nil {
		return err
	}
	if !utf8.ValidString(s) {
		return malformed("it is not valid UTF-8; base64: carries other bytes")
	}
	for _, r := range s {
		if r == ',' {
			return malformed("it holds a comma, by which HTTP merges repeated headers; send it as base64:")
		}
		if unicode.IsControl(r) {
			return malformed("it holds the control character U+%04X", r)
		}
	}
	if s != strings.TrimSpace(s) {
		return malformed("it begins or ends with white space, which HTTP strips; send it as base64:")
	}
	if !norm.NFC.IsNormalString(s) {
		return malformed("it is not in Unicode normal form NFC; send it as base64: if that is meant")
	}
	return nil
}

func checkLength(s string) error {
	if s == "" {
		return malformed("it is empty")
	}
	if len(s) > MaxBytes {
		return malformed("it has %d bytes, at most %d are allowed", len(s), MaxBytes)
	}
	return nil
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrMalformed}, args...)...)
}
