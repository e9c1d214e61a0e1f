package dashboard

import (
	"net/http"

	"github.com/fencegate/fencegate/internal/auth"
)

type settingsBody struct {
	Lights []light
	Masked string
}

func (d *Dashboard) settings(r *http.Request, _ auth.Principal) (page, error) {
	return page{Name: "settings", Title: "Settings", Tab: "settings", Body: settingsBody{d.lights(r.Context()), d.Now().Masked}}, nil
}
