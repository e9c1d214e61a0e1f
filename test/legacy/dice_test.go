package legacy_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// date is a day from 4713 BC on.
func (d *dice) date(years int) string {
	day := fmt.Sprintf("-%02d-%02d", 1+d.IntN(12), 1+d.IntN(28))
	switch d.IntN(8) {
	case 0:
		return d.pick("infinity", "-infinity")
	case 1:
		return fmt.Sprintf("%04d", 1+d.IntN(4712)) + day + " BC"
	case 2:
		return fmt.Sprint(10_000+d.IntN(years-10_000)) + day
	}
	return fmt.Sprintf("%04d", 1+d.IntN(9999)) + day
}

func (d *dice) clock() string {
	return fmt.Sprintf("%02d:%02d:%02d", d.IntN(24), d.IntN(60), d.IntN(60)) + d.pick("", "."+d.of("0123456789", 1+d.IntN(7)))
}

func (d *dice) zone() string {
	return d.pick("Z", "+00", fmt.Sprintf("%s%02d", d.pick("+", "-"), d.IntN(15)), fmt.Sprintf("%s%02d:%02d", d.pick("+", "-"), d.IntN(15), d.IntN(60)))
}

func (d *dice) moment(zone string) string {
	date := d.date(294_000)
	if strings.HasSuffix(date, "infinity") {
		return date
	}
	day, era, _ := strings.Cut(date, " ")
	return strings.TrimSpace(day + d.pick(" ", "T") + d.clock() + zone + " " + era)
}

func (d *dice) interval() string {
	part := func(unit string, most int) string {
		return d.pick("", fmt.Sprintf("%d %s ", d.IntN(2*most)-most, unit))
	}
	return part("years", 10_000) + part("mons", 100) + part("days", 100_000) + d.pick("", "-") + fmt.Sprint(d.IntN(100_000)) + ":" + d.clock()[3:]
}

func (d *dice) address() string {
	return fmt.Sprintf("%d.%d.%d.%d", d.IntN(256), d.IntN(256), d.IntN(256), d.IntN(256))
}

func (d *dice) ordinate() string {
	return d.pick(fmt.Sprint(d.NormFloat64()*1e6), fmt.Sprint(d.IntN(100)), "Infinity", "NaN", "-0")
}

func lessInt(a, b string) int {
	x, _ := strconv.Atoi(a)
	y, _ := strconv.Atoi(b)
	return cmp.Compare(x, y)
}

func lessFloat(a, b string) int {
	x, _ := strconv.ParseFloat(a, 64)
	y, _ := strconv.ParseFloat(b, 64)
	return cmp.Compare(x, y)
}

// span is a range, of whatever ends.
func (d *dice) span(bound func() string, compare func(a, b string) int) value {
	ends := []string{bound(), bound()}
	slices.SortFunc(ends, compare)
	for i := range ends {
		ends[i] = d.pick("", ends[i], ends[i])
	}
	return d.string(d.pick("empty", d.pick("[", "(")+ends[0]+","+ends[1]+d.pick("]", ")")))
}

func (d *dice) multirange() value {
	ranges := make([]string, d.IntN(4))
	for i := range ranges {
		low := d.Int64N(1 << 60)
		ranges[i] = fmt.Sprintf("%s%d,%d%s", d.pick("[", "("), low, low+d.Int64N(1<<60), d.pick("]", ")"))
	}
	return d.string("{" + strings.Join(ranges, ",") + "}")
}

// document is JSON as it is: with spaces, numbers of any size, and, since its
// members are named by their place, no name twice.
func (d *dice) document() value {
	text := d.json(3)
	for text == "null" || strings.HasPrefix(text, `"`) {
		text = d.json(3) // as a whole, null is NULL, and a string loses needless escapes
	}
	return value{text, quote(text)}
}

func (d *dice) json(depth int) string {
	space := func() string { return d.pick("", "", " ", "\n\t") }
	var parts []string
	switch n := d.IntN(9); {
	case n < 2 && depth > 0:
		for i := range d.IntN(4) {
			parts = append(parts, space()+fmt.Sprintf(`"%d%s`, i, d.escaped(d.runes(5))[1:])+space()+":"+d.json(depth-1)+space())
		}
		return "{" + strings.Join(parts, ",") + "}"
	case n < 4 && depth > 0:
		for range d.IntN(4) {
			parts = append(parts, space()+d.json(depth-1)+space())
		}
		return "[" + strings.Join(parts, ",") + "]"
	case n < 6:
		return d.decimal(40) + d.pick("", "", fmt.Sprintf("%s%d", d.pick("e", "E+", "e-"), d.IntN(400)))
	case n < 8:
		return d.escaped(d.runes(12))
	}
	return d.pick("null", "true", "false")
}

func (d *dice) pair() value {
	a, b := d.orNull(d.number(fmt.Sprint(int32(d.bits())))), d.orNull(d.string(d.runes(12)))
	members := []string{`"a":` + a.json, `"b":` + b.json}
	if d.IntN(2) == 0 {
		slices.Reverse(members)
	}
	return value{"{" + strings.Join(members, ",") + "}", fmt.Sprintf("ROW(%s,%s)::legacy.pair", a.sql, b.sql)}
}

func (d *dice) orNull(v value) value {
	if d.IntN(5) == 0 {
		return value{"null", "NULL"}
	}
	return v
}

// array has one to three dimensions, or no element.
func (d *dice) array(element string, draw func(*dice) value) value {
	if d.IntN(10) == 0 {
		return value{"[]", "'{}'"}
	}
	lengths := make([]int, 1+d.IntN(3))
	for i := range lengths {
		lengths[i] = 1 + d.IntN(3)
	}
	v := d.dimension(lengths, draw)
	return value{v.json, v.sql + "::" + element + "[]"}
}

func (d *dice) dimension(lengths []int, draw func(*dice) value) value {
	if len(lengths) == 0 {
		return d.orNull(draw(d))
	}
	var jsons, literals []string
	for range lengths[0] {
		v := d.dimension(lengths[1:], draw)
		jsons, literals = append(jsons, v.json), append(literals, v.sql)
	}
	return value{"[" + strings.Join(jsons, ",") + "]", "ARRAY[" + strings.Join(literals, ",") + "]"}
}
