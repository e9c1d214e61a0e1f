package proxy

import (
	"regexp"
	"strings"

	"github.com/fencegate/fencegate/internal/statement"
)

// maxPath bounds how deep a path leads into JSON.
const maxPath = 32

var pathIndex = regexp.MustCompile(`^-?[0-9]{1,10}$`)

// parseField reads `column`, `column->key->0` or `column->key->>key`. A key in
// double quotes is a member's name also if it looks like a number.
func parseField(parameter, text string) (column string, path statement.Path, err error) {
	column, rest, more := cutOutside(text, "->")
	for more {
		step := statement.Step{}
		rest, step.Text = strings.CutPrefix(rest, ">")
		step.Key, rest, more = cutOutside(rest, "->")
		step.Index = pathIndex.MatchString(step.Key)
		step.Key = unquote(step.Key)
		switch {
		case step.Key == "":
			return "", nil, badParameter(parameter, "%q: a key is empty", text)
		case step.Text && more:
			return "", nil, badParameter(parameter, "%q: ->> gives text, and can only come last", text)
		case len(path) == maxPath:
			return "", nil, badParameter(parameter, "%q has more than %d arrows", text, maxPath)
		}
		path = append(path, step)
	}
	return unquote(column), path, nil
}
