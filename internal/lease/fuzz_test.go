package lease_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/internal/lease"
)

// FuzzTemplate: whatever the text, it is refused as malformed, or read as a
// template that is written back the same, and whose every key it knows as one
// that it may render.
func FuzzTemplate(f *testing.F) {
	for _, text := range []string{"", "whole", "inventory:{sku}", "{a}{b}", "{a}-{a}", "{{{sku}}}", "}}{{", "{", "}", "{}", "{{}", "{a{b}", "{sku}}", "lager:{größe}", "{\x00}", "\xff{a}"} {
		f.Add(text, "A")
		f.Add(text, "}:{{a}")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		got, err := lease.ParseTemplate(text)
		if err != nil {
			if !errors.Is(err, lease.ErrMalformed) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if got.String() != text || len(got.Literals) != len(got.Columns)+1 || got.WholeTable() != (len(got.Columns) == 0) {
			t.Fatalf("%q is read as %#v", text, got)
		}
		if len(slices.Compact(slices.Sorted(slices.Values(got.Columns)))) != len(got.Columns) {
			t.Errorf("%q names a column twice", text)
		}
		key := got.Literals[0]
		for _, literal := range got.Literals[1:] {
			key += value + literal
		}
		if !got.MayRender(lease.Key(key)) {
			t.Errorf("%q does not know its own key %q", text, key)
		}
		if first := got.Literals[0]; first != "" && !strings.HasPrefix("\x01"+key, first) && got.MayRender(lease.Key("\x01"+key)) {
			t.Errorf("%q takes a key that does not begin with %q", text, first)
		}
	})
}

// What the three headers of a claim are read as has one written form, which is read
// as the same again: two texts of one key can't be two keys, nor one text two.
func FuzzClaim(f *testing.F) {
	for _, text := range []string{"inventory:SKU-1", "base64:YQ==", "base64:", "a,b", " a", "a\x00", "é", "e\u0301", "7", "07", "9223372036854775807", "9223372036854775808", "+1", "٣"} {
		f.Add(text, text, text)
	}
	f.Fuzz(func(t *testing.T, key, holder, token string) {
		if k, err := lease.ParseKey(key); err == nil {
			for _, text := range []string{k.Wire(), k.Header()} {
				if again, err := lease.ParseKey(text); again != k || err != nil {
					t.Errorf("the key %q is written %q, read as %q, %v", k, text, again, err)
				}
			}
			mustTravel(t, k.Header())
		}
		if h, err := lease.ParseHolder(holder); err == nil {
			for _, text := range []string{h.Wire(), h.Header()} {
				if again, err := lease.ParseHolder(text); again != h || err != nil {
					t.Errorf("the holder %q is written %q, read as %q, %v", h, text, again, err)
				}
			}
			mustTravel(t, h.Header())
		}
		if n, err := lease.ParseToken(token); err == nil && (n.String() != token || n <= 0) {
			t.Errorf("the token %q is %d", token, n)
		}
	})
}

// mustTravel wants a text that no part of HTTP changes.
func mustTravel(t *testing.T, header string) {
	t.Helper()
	bad := strings.ContainsFunc(header, func(r rune) bool { return r < ' ' || r > '~' || r == ',' })
	if bad || header == "" || strings.TrimSpace(header) != header {
		t.Errorf("%q is no header", header)
	}
}
