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
	var columns statement.Columns
	for _, name := range splitOutside(text, ',') {
		name = unquote(strings.TrimSpace(name))
		if name == "" || slices.Contains(columns.Names, name) {
			return columns, badParameter("select", "a column is empty or named twice")
		}
		columns.Names = append(columns.Names, name)
	}
	return columns, nil
}

func parseOrder(text string) ([]statement.OrderTerm, error) {
	var terms []statement.OrderTerm
	for _, part := range splitOutside(text, ',') {
		words := splitOutside(part, '.')
		term := statement.OrderTerm{Column: unquote(words[0])}
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
		if slices.ContainsFunc(terms, func(t statement.OrderTerm) bool { return t.Column == term.Column }) {
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
