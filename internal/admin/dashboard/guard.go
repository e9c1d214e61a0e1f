package dashboard

import (
	"context"
	"errors"
	"net/http"

	"github.com/fencegate/fencegate/internal/auth"
)

// policy lets pages load what lies beside them and nothing else.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'self'"

type principalKey struct{}

// guard is in front of everything: no answer leaves without its headers, and no
// request gets in from elsewhere.
func (d *Dashboard) guard(next http.Handler) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	crossOrigin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.fail(w, r, errCrossOrigin) }))
	next = d.identify(crossOrigin.Handler(next))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if d.LoopbackOnly && !auth.IsLoopback(r.Host) {
			d.fail(w, r, errMisdirected)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		next.ServeHTTP(w, r)
	})
}

func (d *Dashboard) identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := d.Who(r)
		switch {
		case errors.Is(err, ErrSignIn):
			w.Header().Set("WWW-Authenticate", `Basic realm="fencegate", charset="UTF-8"`)
			d.fail(w, r, &problem{http.StatusUnauthorized, "Sign in", err.Error()})
			return
		case err != nil:
			d.fail(w, r, &problem{http.StatusForbidden, notForAll, err.Error()})
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), principalKey{}, who)))
	})
}

// principalIn returns whom a request comes from: nobody, if it did not get in.
func principalIn(ctx context.Context) auth.Principal {
	who, _ := ctx.Value(principalKey{}).(auth.Principal)
	return who
}
