package proxy

import (
	"strconv"
	"strings"
)

// parseList reads `(a,b,"c,d")`. `()` is the empty list, which matches nothing.
func parseList(text string) ([]string, error) {
	if len(text) < 2 || text[0] != '(' || text[len(text)-1] != ')' {
		return nil, strconv.ErrSyntax
	}
	rest := text[1 : len(text)-1]
	values := []string{}
	for rest != "" {
		value, after, err := nextElement(rest)
		if err != nil {
			return nil, err
		}
		values = append(values, value)
		if after == "" {
			return values, nil
		}
		if after[0] != ',' {
			return nil, strconv.ErrSyntax
		}
		if rest = after[1:]; rest == "" {
			values = append(values, "")
		}
	}
	return values, nil
}

// nextElement reads up to the next comma, or the quoted text that s begins with.
// Further in, a quote is one of the value's characters: stock clients put quotes
// around values with commas or parentheses only.
func nextElement(s string) (value, rest string, err error) {
	if s[0] != '"' {
		end := strings.IndexByte(s, ',')
		if end < 0 {
			end = len(s)
		}
		if strings.ContainsAny(s[:end], "()") {
			return "", "", strconv.ErrSyntax
		}
		return s[:end], s[end:], nil
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case s[i] == '"':
			return b.String(), s[i+1:], nil
		default:
			b.WriteByte(s[i])
		}
	}
	return "", "", strconv.ErrSyntax
}

// splitOutside splits at every sep that is not inside double quotes.
func splitOutside(text string, sep byte) []string {
	var parts []string
	begin, inQuotes := 0, false
	for i := 0; i < len(text); i++ {
		switch {
		case inQuotes && text[i] == '\\':
			i++
		case text[i] == '"':
			inQuotes = !inQuotes
		case text[i] == sep && !inQuotes:
			parts = append(parts, text[begin:i])
			begin = i + 1
		}
	}
	return append(parts, text[begin:])
}

// splitNested splits at every comma that is outside double quotes and brackets.
func splitNested(text string) ([]string, error) {
	var parts []string
	var open []byte
	begin, inQuotes := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inQuotes && c == '\\':
			i++
		case c == '"':
			inQuotes = !inQuotes
		case inQuotes:
		case c == '(':
			open = append(open, ')')
		case c == '{':
			open = append(open, '}')
		case c == ')' || c == '}':
			if len(open) == 0 || open[len(open)-1] != c {
				return nil, strconv.ErrSyntax
			}
			open = open[:len(open)-1]
		case c == ',' && len(open) == 0:
			parts = append(parts, text[begin:i])
			begin = i + 1
		}
	}
	if inQuotes || len(open) > 0 {
		return nil, strconv.ErrSyntax
	}
	return append(parts, text[begin:]), nil
}

// cutOutside is strings.Cut for the first sep that is not inside double quotes.
func cutOutside(text, sep string) (before, after string, found bool) {
	inQuotes := false
	for i := 0; i < len(text); i++ {
		switch {
		case inQuotes && text[i] == '\\':
			i++
		case text[i] == '"':
			inQuotes = !inQuotes
		case !inQuotes && strings.HasPrefix(text[i:], sep):
			return text[:i], text[i+len(sep):], true
		}
	}
	return text, "", false
}

// unquote takes the double quotes off a column name that needs them. A name that
// is not quoted as a whole stays as it is.
func unquote(name string) string {
	if name == "" || name[0] != '"' {
		return name
	}
	if inner, rest, err := nextElement(name); err == nil && rest == "" {
		return inner
	}
	return name
}
