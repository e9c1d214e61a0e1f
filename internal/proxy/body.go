package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/fencegate/fencegate/internal/statement"
)

// maxDepth bounds how deep a body may nest.
const maxDepth = 64

// readBody returns the whole body if it says that it is JSON.
func readBody(r *http.Request) ([]byte, error) {
	if err := checkMediaType(r.Header); err != nil {
		return nil, err
	}
	body, err := r.Body.(*gathered).whole()
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, &fault{status: http.StatusRequestEntityTooLarge, slug: "body_too_large",
			detail: fmt.Sprintf("the body is larger than %d bytes", tooLarge.Limit)}
	case err != nil:
		return nil, &fault{status: http.StatusBadRequest, slug: "malformed_request", detail: "the body ended early or came too slowly"}
	case len(bytes.TrimSpace(body)) == 0:
		return nil, &fault{status: http.StatusBadRequest, slug: "malformed_json", detail: "the body is empty"}
	}
	return body, nil
}

func checkMediaType(h http.Header) error {
	if encoding := h.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return unsupportedMedia("Content-Encoding %q is not supported; send the body as it is", encoding)
	}
	given := h.Get("Content-Type")
	// Also when it is missing: a page in a browser can send that across origins.
	media, params, err := mime.ParseMediaType(given)
	if err != nil || media != "application/json" {
		return unsupportedMedia("Content-Type is %q; send application/json", given)
	}
	if charset := params["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		return unsupportedMedia("charset is %q; JSON is UTF-8", charset)
	}
	return nil
}

func unsupportedMedia(format string, args ...any) error {
	return &fault{status: http.StatusUnsupportedMediaType, slug: "unsupported_media_type", detail: fmt.Sprintf(format, args...)}
}

// decodeObject reads one JSON object of a fixed shape into into. Unknown,
// repeated and differently cased members are errors.
func decodeObject(r *http.Request, into any) error {
	body, err := readBody(r)
	if err != nil {
		return err
	}
	return unmarshalObject(body, into)
}

func unmarshalObject(body []byte, into any) error {
	if err := checkText(body); err != nil {
		return err
	}
	if err := json.Unmarshal(body, into, json.RejectUnknownMembers(true)); err != nil {
		return malformedJSON(err)
	}
	return nil
}

// decodeRows reads one object or an array of objects, keeping every value as
// the text it came in. Duplicate members, trailing data, invalid UTF-8 and lone
// surrogates are errors of the decoder.
func decodeRows(body []byte, maxRows int) (rows []statement.Row, array bool, err error) {
	if err := checkText(body); err != nil {
		return nil, false, err
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(body))
	array = dec.PeekKind() == '['
	if array {
		if _, err := dec.ReadToken(); err != nil {
			return nil, array, malformedJSON(err)
		}
	}
	for array && dec.PeekKind() != ']' || !array && len(rows) == 0 {
		row, err := decodeRow(dec, body)
		if err != nil {
			return nil, array, err
		}
		if rows = append(rows, row); len(rows) > maxRows {
			return nil, array, &fault{status: http.StatusRequestEntityTooLarge, slug: "too_many_rows",
				detail: fmt.Sprintf("at most %d rows are allowed in one request", maxRows), pointer: row.At}
		}
	}
	return rows, array, endOf(dec, array)
}

func endOf(dec *jsontext.Decoder, array bool) error {
	if array {
		if _, err := dec.ReadToken(); err != nil {
			return malformedJSON(err)
		}
	}
	_, err := dec.ReadToken()
	switch {
	case err == nil:
		return &fault{status: http.StatusBadRequest, slug: "malformed_json", detail: "there is more after the end of the JSON value"}
	case err != io.EOF:
		return malformedJSON(err)
	}
	return nil
}

func decodeRow(dec *jsontext.Decoder, body []byte) (statement.Row, error) {
	kind := dec.PeekKind()
	token, err := dec.ReadToken()
	if err != nil {
		return statement.Row{}, malformedJSON(err)
	}
	if token.Kind() != '{' {
		return statement.Row{}, &fault{status: http.StatusBadRequest, slug: "malformed_json",
			detail: fmt.Sprintf("a row must be a JSON object, not %s", kind), pointer: string(dec.StackPointer())}
	}
	begin := dec.InputOffset() - 1
	row := statement.Row{At: string(dec.StackPointer())}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return row, malformedJSON(err)
		}
		row.Names = append(row.Names, name.String())
		if err := dec.SkipValue(); err != nil {
			return row, malformedJSON(err)
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return row, malformedJSON(err)
	}
	row.JSON = body[begin:dec.InputOffset()]
	return row, nil
}

// checkText refuses what JSON allows and PostgreSQL can't keep, or what could
// exhaust either: NUL characters and deep nesting.
func checkText(body []byte) error {
	depth := 0
	for i, inString := 0, false; i < len(body); i++ {
		switch c := body[i]; {
		case inString && c == '\\':
			if bytes.HasPrefix(body[i:], []byte(`\u0000`)) {
				return malformedAt(body, i, "a string holds the character U+0000, which PostgreSQL can't keep")
			}
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return malformedAt(body, i, fmt.Sprintf("it nests deeper than %d", maxDepth))
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}

// malformedAt finds the JSON pointer of a byte offset.
func malformedAt(body []byte, offset int, detail string) error {
	dec := jsontext.NewDecoder(bytes.NewBuffer(body))
	for {
		if _, err := dec.ReadToken(); err != nil {
			return malformedJSON(err) // broken before that place already
		}
		if dec.InputOffset() > int64(offset) {
			return &fault{status: http.StatusBadRequest, slug: "malformed_json", detail: detail, pointer: string(dec.StackPointer())}
		}
	}
}

func malformedJSON(err error) error {
	var semantic *json.SemanticError
	var syntactic *jsontext.SyntacticError
	f := &fault{status: http.StatusBadRequest, slug: "malformed_json"}
	switch {
	case errors.As(err, &syntactic):
		f.pointer = string(syntactic.JSONPointer)
		f.detail = fmt.Sprintf("%s at byte %d", syntactic.Err, syntactic.ByteOffset)
	case errors.Is(err, json.ErrUnknownName) && errors.As(err, &semantic):
		f.pointer = string(semantic.JSONPointer)
		f.detail = "there is no such member here"
	case errors.As(err, &semantic):
		f.pointer = string(semantic.JSONPointer)
		f.detail = fmt.Sprintf("a %s is not possible here", semantic.JSONKind)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		f.detail = "the body ends in the middle of a JSON value"
	default:
		f.detail = "the body is not JSON"
	}
	return f
}
