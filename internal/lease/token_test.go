package lease_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/fencegate/fencegate/internal/lease"
)

func TestParseToken(t *testing.T) {
	t.Parallel()

	t.Run("DecimalDigitsWithinBoundsAreRead", func(t *testing.T) {
		t.Parallel()
		for _, want := range []lease.Token{1, 9, 10, 42, 1<<53 + 1, 1<<63 - 1} {
			got, err := lease.ParseToken(strconv.FormatInt(int64(want), 10))
			if err != nil || got != want {
				t.Errorf("ParseToken(%d) = %d, %v", want, got, err)
			}
		}
	})

	t.Run("EverythingElseIsMalformed", func(t *testing.T) {
		t.Parallel()
		for name, text := range map[string]string{
			"empty":          "",
			"zero":           "0",
			"minus":          "-1",
			"plus":           "+1",
			"leading zero":   "01",
			"fraction":       "1.0",
			"exponent":       "1e3",
			"hex":            "0x10",
			"underscore":     "1_000",
			"comma":          "1,2",
			"arabic digit":   "\u0661",
			"wide digit":     "\uff11",
			"space before":   " 7",
			"space after":    "7 ",
			"newline":        "7\n",
			"NUL":            "7\x00",
			"quoted":         `"7"`,
			"word":           "seven",
			"2^63":           "9223372036854775808",
			"2^64":           "18446744073709551616",
			"2^64+1":         "18446744073709551617",
			"19 nines":       strings.Repeat("9", 19),
			"20 digits":      "1" + strings.Repeat("0", 19),
			"many digits":    strings.Repeat("1", 4096),
			"invalid UTF-8":  "\xff",
			"negative 2^63":  "-9223372036854775808",
			"not a number":   "NaN",
			"infinity":       "Infinity",
			"thousands dots": "1.000",
		} {
			if got, err := lease.ParseToken(text); got != 0 || !errors.Is(err, lease.ErrMalformed) {
				t.Errorf("%s: ParseToken(%q) = %d, %v", name, text, got, err)
			}
		}
	})

	t.Run("WhatIsReadIsWrittenTheSameWay", rapid.MakeCheck(func(t *rapid.T) {
		text := rapid.StringMatching(`[+-]?[0-9]{0,21}[0-9.e ]?`).Draw(t, "text")
		token, err := lease.ParseToken(text)
		if err == nil && (token < 1 || token.String() != text) {
			t.Fatalf("%q was read as %d", text, token)
		}
		n, convErr := strconv.ParseInt(text, 10, 64)
		plain := convErr == nil && n > 0 && strconv.FormatInt(n, 10) == text
		if plain != (err == nil) {
			t.Fatalf("%q: %v", text, err)
		}
	}))
}
