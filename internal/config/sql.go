package config

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// cutSQL cuts the text of one statement at its parameters, written :name. uses
// holds the parameter after each piece of text but the last; joined again they
// are sql, but for a semicolon at its end and what follows that.
//
// It reads strings, names and comments as PostgreSQL does under
// standard_conforming_strings, and judges nothing else of the statement.
func cutSQL(sql string) (text, uses []string, err error) {
	if strings.ContainsRune(sql, 0) || !utf8.ValidString(sql) {
		return nil, nil, errors.New("holds a NUL or what isn't UTF-8")
	}
	l := lexer{sql: sql, end: -1}
	if fault := l.run(); fault != "" {
		if strings.Contains(strings.TrimSpace(sql), "\n") {
			fault = fmt.Sprintf("in its line %d, %s", 1+strings.Count(sql[:l.at], "\n"), fault)
		}
		return nil, nil, errors.New(fault)
	}
	if !l.some {
		return nil, nil, errors.New("holds no statement")
	}
	return append(l.text, sql[l.from:l.end]), l.uses, nil
}

// lexer reads SQL from left to right.
type lexer struct {
	sql  string
	at   int  // what is read next
	from int  // where the current piece of text begins
	end  int  // where the statement ends, -1 while it does not
	some bool // anything but space and comments was there
	text []string
	uses []string
}

var (
	dollarTag = regexp.MustCompile(`^\$(?:[A-Za-z_\x{80}-\x{10FFFF}][A-Za-z0-9_\x{80}-\x{10FFFF}]*)?\$`)
	// continued is what may stand between two parts of one string.
	continued = regexp.MustCompile(`^(?:[ \t\f\v]|--[^\n\r]*)*[\n\r](?:[ \t\n\r\f\v]+|--[^\n\r]*[\n\r])*'`)
)

// run reads to the end and says what is wrong with the text at l.at, or nothing.
func (l *lexer) run() string {
	for l.at < len(l.sql) {
		if fault := l.next(); fault != "" {
			return fault
		}
	}
	if l.end < 0 {
		l.end = len(l.sql)
	}
	return ""
}

// next reads one string, name, comment, parameter or other character.
func (l *lexer) next() string {
	rest := l.sql[l.at:]
	c := rest[0]
	switch {
	case strings.IndexByte(" \t\n\r\f\v", c) >= 0:
		l.at++
		return ""
	case strings.HasPrefix(rest, "--"):
		l.at += lineEnd(rest)
		return ""
	case strings.HasPrefix(rest, "/*"):
		return l.skip(commentEnd(rest), "a comment that does not end")
	case l.end >= 0:
		return "a second statement behind a semicolon; a registered statement is one"
	}
	l.some = l.some || c != ';'
	switch {
	case c == ';':
		l.end = l.at
		l.at++
	case c == '\'':
		return l.skip(quoteEnd(rest, '\''), "a string that does not end")
	case c == '"':
		return l.skip(quoteEnd(rest, '"'), "a quoted name that does not end")
	case c == '$':
		return l.dollar(rest)
	case c == ':':
		return l.colon(rest)
	case isWord(c):
		return l.word(rest)
	default:
		l.at++
	}
	return ""
}

// skip reads n bytes; n < 0 says that what begins here does not end.
func (l *lexer) skip(n int, fault string) string {
	if n < 0 {
		return fault
	}
	l.at += n
	return ""
}

// word reads a name or number, and the string behind the name E.
func (l *lexer) word(rest string) string {
	n := wordEnd(rest)
	if rest[n:] != "" && rest[n] == '\'' && strings.EqualFold(rest[:n], "e") {
		return l.skip(escapedEnd(rest), "a string that does not end")
	}
	l.at += n
	return ""
}

func (l *lexer) dollar(rest string) string {
	if len(rest) > 1 && rest[1] >= '0' && rest[1] <= '9' {
		return "a parameter by number; parameters are written :name"
	}
	tag := dollarTag.FindString(rest)
	if tag == "" {
		l.at++
		return ""
	}
	end := strings.Index(rest[len(tag):], tag)
	if end >= 0 {
		end += 2 * len(tag)
	}
	return l.skip(end, "a string in dollars that does not end")
}

// colon reads a parameter, or the colons of a cast, an assignment or a slice.
func (l *lexer) colon(rest string) string {
	behind := strings.TrimLeft(rest, ":")
	if colons := len(rest) - len(behind); colons > 1 || behind == "" || !isWord(behind[0]) || isDigit(behind[0]) {
		l.at += colons
		return ""
	}
	name := behind[:wordEnd(behind)]
	if !isParamName(name) {
		return fmt.Sprintf("the parameter :%s; its name must be %s", name, paramNames)
	}
	l.text = append(l.text, l.sql[l.from:l.at])
	l.uses = append(l.uses, name)
	l.at += 1 + len(name)
	l.from = l.at
	return ""
}

// paramNames says what isParamName takes.
const paramNames = "1 to 63 letters (a to z), digits and _, no digit first"

var paramName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`)

func isParamName(s string) bool { return paramName.MatchString(s) }

// isWord reports whether c may begin a name or number.
func isWord(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || isDigit(c) || c >= utf8.RuneSelf
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func wordEnd(s string) int {
	n := 0
	for n < len(s) && (isWord(s[n]) || n > 0 && s[n] == '$') {
		n++
	}
	return n
}

func lineEnd(s string) int {
	if n := strings.IndexAny(s, "\n\r"); n >= 0 {
		return n
	}
	return len(s)
}

// commentEnd returns where the comment at the start of s ends; comments nest.
func commentEnd(s string) int {
	depth := 0
	for n := 0; n+1 < len(s); n++ {
		switch s[n : n+2] {
		case "/*":
			depth++
			n++
		case "*/":
			depth--
			n++
		}
		if depth == 0 {
			return n + 1
		}
	}
	return -1
}

// quoteEnd returns where what is quoted at the start of s ends. A doubled quote
// reads as two neighbours.
func quoteEnd(s string, quote byte) int {
	n := strings.IndexByte(s[1:], quote)
	if n < 0 {
		return -1
	}
	return n + 2
}

// escapedEnd returns where the string E'…' at the start of s ends, all lines of
// it that PostgreSQL takes for one.
func escapedEnd(s string) int {
	for n := 2; n < len(s); n++ {
		switch s[n] {
		case '\\':
			n++
		case '\'':
			more := continued.FindString(s[n+1:])
			if strings.HasPrefix(s[n+1:], "'") {
				more = "'" // a quote in the string
			}
			if more == "" {
				return n + 1
			}
			n += len(more)
		}
	}
	return -1
}
