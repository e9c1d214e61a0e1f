package dashboard

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"time"

	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/gate"
)

//go:embed templates/*.html
var templates embed.FS

type pageTemplate = *template.Template

var pageNames = []string{"overview", "locks", "lock", "refusals", "refusal", "tables", "settings", "problem"}

func parsePages() (map[string]pageTemplate, error) {
	pages := map[string]pageTemplate{}
	for _, name := range pageNames {
		t, err := template.New("layout.html").Funcs(funcs).ParseFS(templates, "templates/layout.html", "templates/parts.html", "templates/"+name+".html")
		if err != nil {
			return nil, fmt.Errorf("parsing the page %s: %w", name, err)
		}
		pages[name] = t
	}
	return pages, nil
}

// page is one page before it is drawn.
type page struct {
	Name   string // of its template
	Title  string
	Tab    string        // which link of the navigation it is under
	Live   time.Duration // how often the script looks anew; 0: never
	Follow string        // the stream that tells when to look; "": none
	Status int           // 0: 200
	Goto   string        // where to go instead of drawing; "": nowhere
	Body   any

	Now   time.Time
	Who   auth.Principal
	Admin bool
	About About
}

const notForAll = "Not for everybody"

// problem is an error that is shown as a page of its own.
type problem struct {
	status int
	title  string
	detail string
}

func (p *problem) Error() string { return p.detail }

var (
	errNoPage      = &problem{http.StatusNotFound, "No such page", "There is nothing at this address."}
	errCrossOrigin = &problem{http.StatusForbidden, "Sent from elsewhere", "The form was not sent by a page of this dashboard. Behind a proxy: it must leave the Host header as it is, or be reached over HTTPS."}
	errMisdirected = &problem{http.StatusMisdirectedRequest, "Under another name", "A dashboard on loopback answers only to localhost and loopback addresses. What stands in front of it must set Host."}
)

func badRequest(format string, args ...any) error {
	return &problem{http.StatusBadRequest, "That can't be looked up", fmt.Sprintf(format, args...)}
}

// page answers with what make returns.
func (d *Dashboard) page(make func(*http.Request, auth.Principal) (page, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), pageTimeout)
		defer cancel()
		p, err := make(r.WithContext(ctx), principalIn(ctx))
		switch {
		case err != nil:
			d.fail(w, r, err)
		case p.Goto != "":
			seeOther(w, p.Goto)
		default:
			d.draw(w, r, p)
		}
	})
}

// seeOther keeps the address relative, which http.Redirect does not: what stands in
// front may have another path.
func seeOther(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

func (d *Dashboard) draw(w http.ResponseWriter, r *http.Request, p page) {
	p.Who, p.About = principalIn(r.Context()), d.About
	p.Admin = p.Who.Admin
	if p.Now.IsZero() {
		p.Now = time.Now()
	}
	var whole bytes.Buffer
	if err := d.pages[p.Name].Execute(&whole, p); err != nil {
		d.Log.Error("a page of the dashboard could not be drawn", "page", p.Name, "error", err)
		http.Error(w, "this page could not be drawn; the gateway's log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if p.Status != 0 {
		w.WriteHeader(p.Status)
	}
	w.Write(whole.Bytes())
}

func (d *Dashboard) fail(w http.ResponseWriter, r *http.Request, err error) {
	var known *problem
	switch {
	case errors.As(err, &known):
	case errors.Is(err, auth.ErrDenied):
		known = &problem{http.StatusForbidden, notForAll, err.Error()}
	default:
		known = &problem{http.StatusServiceUnavailable, "Not known now", d.trouble(err)}
	}
	d.draw(w, r, page{Name: "problem", Title: known.title, Status: known.status, Body: known.detail})
}

// trouble tells why something is not known, without what may hold addresses: that
// is in the log.
func (d *Dashboard) trouble(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, gate.ErrDatabaseUnavailable), errors.Is(err, context.DeadlineExceeded):
		return "The database can’t be reached."
	}
	d.Log.Warn("the dashboard could not read what it shows", "error", err)
	return "It could not be read; the gateway’s log says why."
}
