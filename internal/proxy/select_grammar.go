package proxy

import (
	"slices"
	"strings"

	"github.com/fencegate/fencegate/internal/statement"
)

func parseSelect(text string) (statement.Columns, error) {
	if text == "*" || text == "" {
		return statement.Columns{All: true}, nil
	}
	parts, err := splitNested(text)
	if err != nil {
		return statement.Columns{}, badParameter("select", "quotes or parentheses don't match")
	}
	if len(parts) > maxOutputs {
		return statement.Columns{}, badParameter("select", "more than %d columns", maxOutputs)
	}
	var columns statement.Columns
	plain := true
	for _, part := range parts {
		o, err := parseOutput(strings.TrimSpace(part))
		if err != nil {
			return columns, err
		}
		if slices.ContainsFunc(columns.Outputs, func(other statement.Output) bool { return other.Name() == o.Name() && other.Star == o.Star }) {
			return columns, badParameter("select", "%q is named twice; give it an alias", o.Name())
		}
		columns.Outputs = append(columns.Outputs, o)
		columns.Names = append(columns.Names, o.Column)
		plain = plain && !o.Star && len(o.Path) == 0 && o.Cast == "" && o.Alias == ""
	}
	if plain {
		return statement.Columns{Names: columns.Names}, nil
	}
	return statement.Columns{Outputs: columns.Outputs}, nil
}

// maxOutputs bounds what a row answers: PostgreSQL's tables have no more columns.
const maxOutputs = 1600

// parseOutput reads `alias:column->path::type`.
func parseOutput(text string) (o statement.Output, err error) {
	if text == "*" {
		return statement.Output{Star: true}, nil
	}
	if err := notOffered(text); err != nil {
		return o, err
	}
	text, cast, isCast := cutOutside(text, "::")
	if o.Cast = strings.ToLower(strings.TrimSpace(cast)); isCast && !statement.KnownType(o.Cast) {
		return o, badParameter("select", "%q is no type to cast to; write a built-in type's name without a length, such as text, int8, numeric or jsonb", cast)
	}
	if alias, rest, ok := cutOutside(text, ":"); ok {
		if o.Alias, text = unquote(alias), rest; o.Alias == "" {
			return o, badParameter("select", "an alias is empty")
		}
	}
	o.Column, o.Path, err = parseField("select", text)
	if err == nil && o.Column == "" {
		err = badParameter("select", "a column is empty")
	}
	return o, err
}

// notOffered names what PostgREST has and this gateway has not.
func notOffered(text string) error {
	before, inside, called := cutOutside(text, "(")
	switch {
	case strings.HasPrefix(text, "..."), called && inside != ")":
		return badParameter("select", "%q: embedding other tables isn't offered; read each table by itself", text)
	case called && (before == "count" || strings.Contains(before, ".")):
		return badParameter("select", "%q: aggregate functions aren't offered; Prefer: count=exact counts", text)
	case called:
		return badParameter("select", "%q: embedding other tables isn't offered; read each table by itself", text)
	}
	return nil
}

func parseOrder(text string) ([]statement.OrderTerm, error) {
	var terms []statement.OrderTerm
	for _, part := range splitOutside(text, ',') {
		words := splitOutside(part, '.')
		column, path, err := parseField("order", words[0])
		if err != nil {
			return nil, err
		}
		term := statement.OrderTerm{Column: column, Path: path}
		words = words[1:]
		if len(words) > 0 && (words[0] == "asc" || words[0] == "desc") {
			term.Desc = words[0] == "desc"
			words = words[1:]
		}
		if len(words) > 0 && (words[0] == "nullsfirst" || words[0] == "nullslast") {
			term.Nulls = strings.TrimPrefix(words[0], "nulls")
			words = words[1:]
		}
		if len(words) > 0 {
			return nil, badParameter("order", "%q: write column.asc|desc.nullsfirst|nullslast", part)
		}
		if slices.ContainsFunc(terms, func(t statement.OrderTerm) bool { return t.Column == term.Column && slices.Equal(t.Path, term.Path) }) {
			return nil, badParameter("order", "column %q is named twice", term.Column)
		}
		if len(terms) == maxOrderTerms {
			return nil, badParameter("order", "more than %d columns", maxOrderTerms)
		}
		terms = append(terms, term)
	}
	return terms, nil
}

// maxOrderTerms bounds the columns to sort by.
const maxOrderTerms = 32
