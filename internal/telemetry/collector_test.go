package telemetry_test

import (
	"compress/gzip"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// receiver takes OTLP over HTTP, as a collector does, and keeps it.
type receiver struct {
	URL  string
	mu   sync.Mutex
	all  []*otlp.Span
	raw  []byte
	head http.Header
	path string
	of   map[string]string // the attributes of the resource
}

func startReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.URL = server.URL
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := gzip.NewReader(q.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	raw, err := io.ReadAll(body)
	var batch collector.ExportTraceServiceRequest
	if err != nil || proto.Unmarshal(raw, &batch) != nil {
		http.Error(w, "not OTLP", http.StatusBadRequest)
		return
	}
	r.keep(q, raw, &batch)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (r *receiver) keep(q *http.Request, raw []byte, batch *collector.ExportTraceServiceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.path, r.head, r.raw = q.URL.Path, q.Header, append(r.raw, raw...)
	for _, of := range batch.ResourceSpans {
		r.of = texts(of.Resource.Attributes)
		for _, scope := range of.ScopeSpans {
			r.all = append(r.all, scope.Spans...)
		}
	}
}

// texts is attributes as texts, by their names.
func texts(attributes []*common.KeyValue) map[string]string {
	all := map[string]string{}
	for _, a := range attributes {
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			all[a.Key] = v.StringValue
		default:
			_, all[a.Key], _ = strings.Cut(strings.ReplaceAll(a.Value.String(), " ", ""), ":")
		}
	}
	return all
}

// spans returns what has been received, and is to be called once the gateway has
// ended.
func (r *receiver) spans() []*otlp.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.all)
}

// node is a span with those beneath it.
type node struct {
	*otlp.Span
	attributes map[string]string
	beneath    []*node
}

// trees returns the spans that have no parent among spans, with all that is beneath
// them, in the order they began.
func trees(spans []*otlp.Span) (tops []*node) {
	byID := map[string]*node{}
	for _, s := range spans {
		byID[string(s.SpanId)] = &node{Span: s, attributes: texts(s.Attributes)}
	}
	slices.SortStableFunc(spans, func(a, b *otlp.Span) int { return int(int64(a.StartTimeUnixNano) - int64(b.StartTimeUnixNano)) })
	for _, s := range spans {
		own, parent := byID[string(s.SpanId)], byID[string(s.ParentSpanId)]
		if parent == nil {
			tops = append(tops, own)
		} else {
			parent.beneath = append(parent.beneath, own)
		}
	}
	return tops
}

// drawn is the names of a span and those beneath it, indented.
func (n *node) drawn() string {
	var text strings.Builder
	var draw func(n *node, indent string)
	draw = func(n *node, indent string) {
		text.WriteString(indent + n.Name + "\n")
		for _, below := range n.beneath {
			draw(below, indent+"  ")
		}
	}
	draw(n, "")
	return text.String()
}

// find returns the first span of that name, at or beneath n; nil if there is none.
func (n *node) find(name string) *node {
	for one := range n.all() {
		if one.Name == name {
			return one
		}
	}
	return nil
}

// all is n and everything beneath it.
func (n *node) all() iter.Seq[*node] {
	return func(yield func(*node) bool) { n.visit(yield) }
}

func (n *node) visit(yield func(*node) bool) bool {
	if !yield(n) {
		return false
	}
	for _, below := range n.beneath {
		if !below.visit(yield) {
			return false
		}
	}
	return true
}

func (n *node) events() (names []string) {
	for _, e := range n.Events {
		names = append(names, e.Name)
	}
	return names
}
