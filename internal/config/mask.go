package config

import (
	"errors"
	"net/url"
	"strings"
	"unicode"
)

// masking stands for a password.
const masking = "xxxxx"

var (
	errAmbiguous = errors.New("has a @ after its host; write @ / ? and # inside a user or password as %40 %2F %3F and %23")
	errControl   = errors.New("holds a line break or another control character")
	errPort      = errors.New("has a port that isn't a number")
	errNotPairs  = errors.New("is neither a URL nor key=value pairs")
)

// mask returns a connection string with its passwords masked. It fails if it
// can't tell for certain where a password ends; its errors quote nothing.
func mask(s string) (string, error) {
	if scheme, rest, ok := strings.Cut(s, "://"); ok && !strings.ContainsAny(scheme, "= ") {
		return maskURL(scheme, rest)
	}
	return maskPairs(s)
}

func maskURL(scheme, rest string) (string, error) {
	authority, tail := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	if strings.ContainsFunc(rest, unicode.IsControl) {
		return "", errControl
	}
	if strings.Contains(tail, "@") {
		return "", errAmbiguous
	}
	// Without its @, a password stands where a port does.
	if !hasPlainPorts(authority[strings.LastIndex(authority, "@")+1:]) {
		return "", errPort
	}
	path, query, _ := strings.Cut(tail, "?")
	masked := scheme + "://" + maskUser(authority) + path
	if query != "" {
		masked += "?" + maskQuery(query)
	}
	return masked, nil
}

// hasPlainPorts reports whether every port of a list of hosts is digits.
func hasPlainPorts(hosts string) bool {
	for host := range strings.SplitSeq(hosts, ",") {
		host = host[strings.LastIndex(host, "]")+1:]
		if _, port, _ := strings.Cut(host, ":"); strings.Trim(port, "0123456789") != "" {
			return false
		}
	}
	return true
}

func maskUser(authority string) string {
	at := strings.LastIndex(authority, "@")
	if at < 0 {
		return authority
	}
	user, _, has := strings.Cut(authority[:at], ":")
	if has {
		user += ":" + masking
	}
	return user + authority[at:]
}

func maskQuery(query string) string {
	params := strings.Split(query, "&")
	for i, param := range params {
		key, _, _ := strings.Cut(param, "=")
		if plain, err := url.QueryUnescape(key); err != nil || isPassword(plain) {
			params[i] = key + "=" + masking
		}
	}
	return strings.Join(params, "&")
}

// isPassword reports whether the parameter key is a password. PostgreSQL has
// password and sslpassword; passfile is only a file's name.
func isPassword(key string) bool {
	key = strings.ToLower(key)
	return strings.Contains(key, "pass") && key != "passfile"
}

// space is what separates the pairs of a key=value string.
const space = " \t\n\r\v\f"

// maskPairs masks libpq's key=value form.
func maskPairs(s string) (string, error) {
	var pairs []string
	for rest := strings.TrimLeft(s, space); rest != ""; {
		key, after, ok := strings.Cut(rest, "=")
		key = strings.Trim(key, space)
		if !ok || !isParameter(key) {
			return "", errNotPairs
		}
		after = strings.TrimLeft(after, space)
		end, ok := valueEnd(after)
		if !ok {
			return "", errNotPairs
		}
		value := after[:end]
		if isPassword(key) {
			value = masking
		}
		pairs = append(pairs, key+"="+value)
		rest = strings.TrimLeft(after[end:], space)
	}
	if len(pairs) == 0 {
		return "", errNotPairs
	}
	return strings.Join(pairs, " "), nil
}

// valueEnd returns where the value at the start of s ends: at a space, or
// behind its closing quote. A backslash takes the byte after it along.
func valueEnd(s string) (int, bool) {
	quoted := strings.HasPrefix(s, "'")
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
		case quoted && i > 0 && c == '\'':
			return i + 1, true
		case !quoted && strings.IndexByte(space, c) >= 0:
			return i, true
		}
	}
	return len(s), !quoted
}

// isParameter reports whether key is a parameter's name: nothing else may
// stand there, or the rest of a password with a space in it would pass as one.
func isParameter(key string) bool {
	return key != "" && strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.") == ""
}
