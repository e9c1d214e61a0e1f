package legacy_test

import (
	"encoding/base64"
	"encoding/hex"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

var seed = flag.Uint64("seed", rand.Uint64(), "of the random values; a failing test prints it")

// draws is how many values of each family one run tries.
const draws = 100

// family draws random values of a column.
type family struct {
	column string
	draw   func(d *dice) value
}

func families() []family {
	return []family{
		{"int2", func(d *dice) value { return d.number(fmt.Sprint(int16(d.bits()))) }},
		{"int4", func(d *dice) value { return d.number(fmt.Sprint(int32(d.bits()))) }},
		{"int8", func(d *dice) value { return d.number(fmt.Sprint(int64(d.bits()))) }},
		{"numeric", func(d *dice) value { return d.number(d.decimal(400) + d.pick("", "", "e"+fmt.Sprint(d.IntN(600)-300))) }},
		{"numeric_12_2", func(d *dice) value { return d.number(d.decimal(9)) }},
		{"numeric_1000", func(d *dice) value { return d.number(d.decimal(490)) }},
		{"float4", func(d *dice) value { return d.float(float64(math.Float32frombits(uint32(d.bits()))), 32) }},
		{"float8", func(d *dice) value { return d.float(math.Float64frombits(d.bits()), 64) }},
		{"money", func(d *dice) value { return d.number(d.decimal(14)) }},
		{"oid", func(d *dice) value { return d.number(fmt.Sprint(uint32(d.bits()))) }},
		{"xid8", func(d *dice) value { return d.number(fmt.Sprint(d.bits())) }},
		{"text", func(d *dice) value { return d.string(d.runes(40)) }},
		{"varchar", func(d *dice) value { return d.string(d.runes(40)) }},
		{"bpchar", func(d *dice) value { return d.string(d.runes(40)) }},
		{"citext", func(d *dice) value { return d.string(d.runes(40)) }},
		{"name", func(d *dice) value { return d.string(d.runes(30)) }},
		{"varbit", func(d *dice) value { return d.string(d.of("01", d.IntN(80))) }},
		{"bit_5", func(d *dice) value { return d.string(d.of("01", 5)) }},
		{"bytea", (*dice).bytea},
		{"uuid", func(d *dice) value { return d.string(d.of("0123456789abcdefABCDEF", 32)) }},
		{"mood", func(d *dice) value {
			return d.string(d.pick("sad", "ok", "very happy", "größe", "", "NULL", `it's "fine", {really} \ (so)`))
		}},
		{"date", func(d *dice) value { return d.string(d.date(5_874_000)) }},
		{"time", func(d *dice) value { return d.string(d.clock()) }},
		{"timetz", func(d *dice) value { return d.string(d.clock() + d.zone()) }},
		{"timestamp", func(d *dice) value { return d.string(d.moment("")) }},
		{"timestamptz", func(d *dice) value { return d.string(d.moment(d.zone())) }},
		{"timestamptz_0", func(d *dice) value { return d.string(d.moment(d.zone())) }},
		{"interval", func(d *dice) value { return d.string(d.interval()) }},
		{"interval_day", func(d *dice) value { return d.string(d.pick(d.interval(), fmt.Sprint(d.IntN(1000)-500))) }},
		{"int4range", func(d *dice) value { return d.span(func() string { return fmt.Sprint(int32(d.bits()) / 2) }, lessInt) }},
		{"int8multirange", func(d *dice) value { return d.multirange() }},
		{"numrange", func(d *dice) value {
			return d.span(func() string { return fmt.Sprint(d.IntN(1e9)) + ".50" }, lessFloat)
		}},
		{"inet", func(d *dice) value { return d.string(d.address() + d.pick("", "/"+fmt.Sprint(d.IntN(33)))) }},
		{"macaddr", func(d *dice) value { return d.string(d.of("0123456789abcdef", 12)) }},
		{"point", func(d *dice) value { return d.string("(" + d.ordinate() + "," + d.ordinate() + ")") }},
		{"circle", func(d *dice) value {
			return d.string("<(" + d.ordinate() + "," + d.ordinate() + ")," + fmt.Sprint(d.Float64()) + ">")
		}},
		{"pg_lsn", func(d *dice) value {
			return d.string(fmt.Sprintf("%X/%X", uint32(d.bits()), uint32(d.bits())))
		}},
		{"ltree", func(d *dice) value {
			return d.string(d.of("aZ_9", 1+d.IntN(9)) + d.pick("", "."+d.of("aZ_9", 1+d.IntN(9))))
		}},
		{"json", (*dice).document},
		{"jsonb", (*dice).document},
		{"pair", (*dice).pair},
		{"pairs", func(d *dice) value { return d.array("legacy.pair", (*dice).pair) }},
		{"int4s", func(d *dice) value {
			return d.array("integer", func(d *dice) value { return d.number(fmt.Sprint(int32(d.bits()))) })
		}},
		{"numerics", func(d *dice) value {
			return d.array("numeric", func(d *dice) value { return d.number(d.decimal(60)) })
		}},
		{"float8s", func(d *dice) value {
			return d.array("float8", func(d *dice) value { return d.float(math.Float64frombits(d.bits()), 64) })
		}},
		{"texts", func(d *dice) value {
			return d.array("text", func(d *dice) value { return d.string(d.runes(12)) })
		}},
		{"timestamptzs", func(d *dice) value {
			return d.array("timestamptz", func(d *dice) value { return d.string(d.moment(d.zone())) })
		}},
	}
}

// randomValues sends random values, and what is read of them, and holds each
// against what PostgreSQL itself makes of it.
func randomValues(t *testing.T, w *world) {
	for i, f := range families() {
		t.Run(f.column, func(t *testing.T) {
			t.Parallel()
			t.Logf("-seed=%d", *seed)
			d := &dice{rand.New(rand.NewPCG(*seed, uint64(i)))}
			values := make([]value, draws)
			for i := range values {
				values[i] = f.draw(d)
			}
			c := w.open(t, f.column, values)
			t.Run("BulkInsert", c.bulkInsert)
			t.Run("SentBackAsRead", c.sendBack)
		})
	}
}

// dice makes values from one seed.
type dice struct{ *rand.Rand }

// bits is any 64 bits, or few, or nearly the most.
func (d *dice) bits() uint64 {
	switch d.IntN(4) {
	case 0:
		return d.Uint64N(20)
	case 1:
		return -d.Uint64N(20)
	case 2:
		return d.Uint64() >> d.IntN(64)
	}
	return d.Uint64()
}

func (d *dice) pick(choices ...string) string { return choices[d.IntN(len(choices))] }

func (d *dice) of(alphabet string, length int) string {
	var b strings.Builder
	for range length {
		b.WriteByte(alphabet[d.IntN(len(alphabet))])
	}
	return b.String()
}

// decimal is a number of up to digits digits before the point, and after it.
func (d *dice) decimal(digits int) string {
	whole := strings.TrimLeft(d.of("0123456789", d.IntN(digits)+1), "0")
	if whole == "" {
		whole = "0"
	}
	return d.pick("", "-") + whole + d.pick("", "."+d.of("0123456789", d.IntN(digits)+1))
}

// number travels as a number, or as a string.
func (d *dice) number(literal string) value {
	return value{d.pick(literal, jsonText(literal)), quote(literal)}
}

func (d *dice) float(f float64, size int) value {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return d.string(strings.TrimPrefix(strconv.FormatFloat(f, 'g', -1, size), "+"))
	}
	digits := strconv.FormatFloat(f, byte(d.pick("g", "e", "f")[0]), -1, size)
	if d.IntN(3) == 0 && math.Abs(f) > 1e-30 && math.Abs(f) < 1e30 {
		digits = strconv.FormatFloat(f, 'f', 20, 64) // more digits than it has
	}
	return d.number(digits)
}

// string is text in JSON, some of its characters written as escapes.
func (d *dice) string(text string) value { return value{d.escaped(text), quote(text)} }

func (d *dice) escaped(text string) string {
	var b strings.Builder
	for _, r := range jsonText(text) {
		switch {
		case d.IntN(4) > 0 || strings.ContainsRune(`"\bfnrtu0123456789`, r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\u%04x\u%04X`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// alphabets begin where a script does; what JSON, SQL and URLs quote is one.
var alphabets = []rune{'a', 'A', '0', ' ', 0x1, 0xc0, 0x300, 0x391, 0x410, 0x5d0, 0x627, 0x905, 0x2010, 0x4e00, 0xac00, 0xe000, 0xfff0, 0x1f600, 0x10fff0}

func (d *dice) runes(most int) string {
	var b strings.Builder
	for range d.IntN(most) {
		if d.IntN(3) == 0 {
			b.WriteString(d.pick(`"`, `\`, `'`, `{`, `}`, `(`, `)`, `,`, `%`, `&`, `$`, "\n", "\t", "\u007f", "\u2028", "\u200d"))
			continue
		}
		b.WriteRune(alphabets[d.IntN(len(alphabets))] + d.Int32N(10))
	}
	return b.String()
}

func (d *dice) bytea() value {
	raw := make([]byte, d.IntN(50))
	for i := range raw {
		raw[i] = byte(d.Uint32())
	}
	literal := `\x` + hex.EncodeToString(raw)
	return value{d.pick(jsonText(literal), jsonText("base64:"+base64.StdEncoding.EncodeToString(raw))), quote(literal)}
}
