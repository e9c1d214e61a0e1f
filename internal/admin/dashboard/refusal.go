package dashboard

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/auth"
	"github.com/fencegate/fencegate/internal/gate"
)

type refusalBody struct {
	gate.Story
	Code    code
	Picture picture
	Payload string
	Command string // tells the same at a shell
}

func (d *Dashboard) refusal(r *http.Request, who auth.Principal) (page, error) {
	id, err := strconv.ParseInt(r.URL.Query().Get("id"), 10, 64)
	if err != nil || id < 1 {
		return page{}, badRequest("The address names no record.")
	}
	story, err := d.gate().Refusal(r.Context(), who, id)
	if errors.Is(err, audit.ErrNotFound) {
		return page{}, &problem{http.StatusNotFound, "No such record", "It was never there, or it was dropped with its week when its time was over."}
	}
	if err != nil {
		return page{}, err
	}
	number := strconv.FormatInt(id, 10)
	body := refusalBody{Story: story, Code: codeOf(story.Code), Picture: draw(story), Command: "gateway audit show " + number}
	if story.Payload != "" {
		body.Payload = indented(story.Payload)
	}
	return page{Name: "refusal", Title: "Refusal " + number, Tab: "refusals", Body: body}, nil
}
