package lease_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"
	"pgregory.net/rapid"

	"github.com/fencegate/fencegate/internal/lease"
)

// malformedForms is what neither a key nor a holder can look like.
var malformedForms = map[string]string{
	"empty":              "",
	"too long":           strings.Repeat("k", lease.MaxBytes+1),
	"too long in bytes":  strings.Repeat("ü", lease.MaxBytes/2) + "k",
	"NUL":                "a\x00b",
	"tab":                "a\tb",
	"newline":            "a\nb",
	"carriage return":    "a\rb",
	"escape":             "a\x1bb",
	"DEL":                "a\x7fb",
	"C1 control":         "a\u0085b",
	"comma":              "a,b",
	"invalid UTF-8":      "a\xffb",
	"overlong UTF-8":     "a\xc0\x80b",
	"surrogate":          "a\xed\xa0\x80b",
	"NFD":                "u\u0308ber",
	"space before":       " a",
	"space after":        "a ",
	"only a space":       " ",
	"no-break space":     "a\u00a0",
	"base64 of nothing":  "base64:",
	"base64 padding":     "base64:YQ",
	"base64 URL form":    "base64:-_8=",
	"base64 space":       "base64:YWJj ZGVm",
	"base64 line break":  "base64:YWJj\nZGVm",
	"base64 CR":          "base64:YWJj\rZGVm",
	"base64 loose bits":  "base64:YR==",
	"base64 trailing":    "base64:YQ==YQ==",
	"base64 of too many": "base64:" + base64.StdEncoding.EncodeToString(make([]byte, lease.MaxBytes+1)),
}

func TestParseKey(t *testing.T) {
	t.Parallel()

	t.Run("MalformedFormsAreRefused", func(t *testing.T) {
		t.Parallel()
		forms := map[string]string{
			"base64 of NUL":           encoded("a\x00b"),
			"base64 of invalid UTF-8": encoded("\xff\xfe"),
			"base64 of a surrogate":   encoded("\xed\xa0\x80"),
		}
		for name, text := range malformedForms {
			forms[name] = text
		}
		for name, text := range forms {
			if key, err := lease.ParseKey(text); key != "" || !errors.Is(err, lease.ErrMalformed) {
				t.Errorf("%s: ParseKey(%q) = %q, %v", name, text, key, err)
			}
		}
	})

	t.Run("PlainTextIsTakenAsItIs", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{
			"a", "inventory:SKU-1", "two words", `quo"tes'`, `back\slash`, "100%", "lager:Köln", "在庫:1",
			"BASE64:YQ==", strings.Repeat("k", lease.MaxBytes), strings.Repeat("ü", lease.MaxBytes/2),
		} {
			if key, err := lease.ParseKey(text); string(key) != text || err != nil {
				t.Errorf("ParseKey(%q) = %q, %v", text, key, err)
			}
		}
	})

	t.Run("Base64CarriesWhatPlainTextCant", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{"a,b", "u\u0308ber", " a ", "base64:YQ==", "a\tb", "plain", strings.Repeat(",", lease.MaxBytes)} {
			if key, err := lease.ParseKey(encoded(text)); string(key) != text || err != nil {
				t.Errorf("ParseKey(base64 of %q) = %q, %v", text, key, err)
			}
		}
	})

	t.Run("ErrorsDontRepeatTheValue", func(t *testing.T) {
		t.Parallel()
		for _, text := range []string{"secret,secret", "secret\x01", "secret" + strings.Repeat("k", 600), "base64:secret!"} {
			if _, err := lease.ParseHolder(text); err == nil || strings.Contains(err.Error(), "secret") {
				t.Errorf("%q: %v", text, err)
			}
		}
	})
}

func TestParseHolder(t *testing.T) {
	t.Parallel()

	t.Run("MalformedFormsAreRefused", func(t *testing.T) {
		t.Parallel()
		for name, text := range malformedForms {
			if holder, err := lease.ParseHolder(text); err == nil || !errors.Is(err, lease.ErrMalformed) {
				t.Errorf("%s: ParseHolder(%q) = %q, %v", name, text, holder, err)
			}
		}
	})

	t.Run("Base64CarriesAnyBytes", func(t *testing.T) {
		t.Parallel()
		for _, raw := range []string{"\x00", "\xff\xfe", "a\x00b", "\xed\xa0\x80", strings.Repeat("\x00", lease.MaxBytes)} {
			if holder, err := lease.ParseHolder(encoded(raw)); string(holder) != raw || err != nil {
				t.Errorf("ParseHolder(base64 of %q) = %q, %v", raw, holder, err)
			}
		}
	})
}

func TestWire(t *testing.T) {
	t.Parallel()

	t.Run("HoldersComeBackWhole", rapid.MakeCheck(func(t *rapid.T) {
		holder := lease.Holder(anyBytes().Draw(t, "holder"))
		back, err := lease.ParseHolder(holder.Wire())
		if err != nil || back != holder {
			t.Fatalf("%q travels as %q and comes back as %q, %v", holder, holder.Wire(), back, err)
		}
		for _, text := range []string{holder.Wire(), holder.Header()} {
			if !httpguts.ValidHeaderFieldValue(text) || strings.Contains(text, ",") || text != strings.TrimSpace(text) {
				t.Fatalf("%q can't be a header", text)
			}
		}
	}))

	t.Run("KeysComeBackWhole", rapid.MakeCheck(func(t *rapid.T) {
		key := lease.Key(keyText().Draw(t, "key"))
		for _, text := range []string{key.Wire(), key.Header()} {
			back, err := lease.ParseKey(text)
			if err != nil || back != key || back.Wire() != key.Wire() {
				t.Fatalf("%q travels as %q and comes back as %q, %v", key, text, back, err)
			}
		}
	}))

	t.Run("WhatIsReadHasOneWrittenForm", rapid.MakeCheck(func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.StringMatching(`base64:[A-Za-z0-9+/]{0,12}={0,2}`)).Draw(t, "text")
		key, err := lease.ParseKey(text)
		if err != nil {
			return
		}
		if again, err := lease.ParseKey(key.Wire()); err != nil || again != key {
			t.Fatalf("%q → %q → %q, %v", text, key, again, err)
		}
	}))

	t.Run("HeadersAreASCII", rapid.MakeCheck(func(t *rapid.T) {
		text := lease.Key(keyText().Draw(t, "key")).Header()
		for i := range len(text) {
			if text[i] < 0x20 || text[i] > 0x7e {
				t.Fatalf("%q can't be sent by every HTTP client", text)
			}
		}
	}))

	t.Run("PlainTextStaysReadable", func(t *testing.T) {
		t.Parallel()
		for key, want := range map[lease.Key]string{
			"inventory:SKU-1": "inventory:SKU-1",
			"lager:Köln":      "lager:Köln",
			"a,b":             "base64:YSxi",
			"base64:x":        "base64:YmFzZTY0Ong=",
		} {
			if got := key.Wire(); got != want {
				t.Errorf("%q is written as %q, not %q", key, got, want)
			}
		}
	})
}

func TestNewHolder(t *testing.T) {
	t.Parallel()
	seen := map[lease.Holder]bool{}
	for range 1000 {
		h := lease.NewHolder()
		if seen[h] || len(h) != 32 || h.Wire() != string(h) {
			t.Fatalf("holder %q", h)
		}
		seen[h] = true
	}
}

func TestDigestTellsHoldersApartAndHidesThem(t *testing.T) {
	t.Parallel()
	a, b := lease.Holder("a"), lease.Holder("b")
	if a.Digest() == b.Digest() || a.Digest() != lease.Holder("a").Digest() || len(a.Digest()) != 16 {
		t.Errorf("digests %q and %q", a.Digest(), b.Digest())
	}
}

func encoded(s string) string { return "base64:" + base64.StdEncoding.EncodeToString([]byte(s)) }

func anyBytes() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return string(rapid.SliceOfN(rapid.Byte(), 1, lease.MaxBytes).Draw(t, "bytes"))
	})
}

func keyText() *rapid.Generator[string] {
	return rapid.StringN(1, -1, lease.MaxBytes).Filter(func(s string) bool {
		return utf8.ValidString(s) && !strings.Contains(s, "\x00")
	})
}
