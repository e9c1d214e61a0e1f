package dashboard

import (
	"fmt"
	"strings"
	"time"

	"github.com/fencegate/fencegate/internal/audit"
	"github.com/fencegate/fencegate/internal/gate"
	"github.com/fencegate/fencegate/internal/lease"
)

// picture is the story of one refusal, made of what is on record: who was granted
// the lock when, and when the late request came. What is not on record, such as
// when a lease ran out, is not in it.
type picture struct {
	Told   []string // the same in words
	Lanes  []turn
	Lines  []moment
	Height int
	Axis   int // where the times stand
}

// turn is one grant. All X are percents of the width, all Y pixels.
type turn struct {
	Y      int
	Who    string
	Token  lease.Token
	Says   string // when it began and how it ended
	Held   stretch
	Late   stretch // of the refused one: from the end of its turn to its request
	Missed int     // so many turns are left out before this one
}

// stretch is a part of a lane; W 0: it is not there.
type stretch struct{ X, W float64 }

type moment struct {
	X    float64
	Text string
	Kind string // granted, taken, refused
	Row  int    // of the axis
}

const (
	turnHeight = 62
	leftEdge   = 0.
	rightEdge  = 86. // where the refusal is
	mostTurns  = 4
)

// grant is a turn as it is on record.
type grant struct {
	audit.Grant
	ended  time.Time
	ending string // released, revoked, followed; "": it had not ended by the refusal
	by     audit.Grant
}

// draw leaves out what came after the refusal.
func draw(story gate.Story) picture {
	turns := turnsOf(story)
	p := picture{Told: tell(story, turns)}
	if len(turns) == 0 || turns[0].Token != story.Claim.Token {
		return p
	}
	s := scale{turns[0].OccurredAt, story.OccurredAt}
	kept, missed := shorten(turns)
	for i, g := range kept {
		t := turn{Y: i * turnHeight, Who: whose(g.Grant), Token: g.Token, Says: g.says(turns[0].OccurredAt)}
		t.Held = s.stretch(g.OccurredAt, g.ended)
		if g.ending == "" && i > 0 {
			t.Held.W = 100 - t.Held.X // it went on
		}
		if i == 0 && g.ending != "" {
			t.Late = s.stretch(g.ended, story.OccurredAt)
		}
		if i == len(kept)-1 {
			t.Missed = missed
		}
		p.Lanes = append(p.Lanes, t)
	}
	p.Axis = len(p.Lanes) * turnHeight
	p.Lines, p.Height = s.lines(turns, story), p.Axis+24
	if p.Lines[1].Row > 0 {
		p.Height += 20
	}
	return p
}

// turnsOf are the grants until the refusal, from that of the presented token on.
func turnsOf(story gate.Story) (turns []grant) {
	for _, g := range story.History {
		if g.OccurredAt.After(story.OccurredAt) {
			continue
		}
		last := len(turns) - 1
		if last >= 0 && turns[last].ending == "" {
			turns[last].ending, turns[last].ended, turns[last].by = g.Event, g.OccurredAt, g
		}
		if g.Event == "granted" {
			turns = append(turns, grant{Grant: g, ended: story.OccurredAt})
		}
	}
	return turns
}

// shorten keeps the first turns and the last one.
func shorten(turns []grant) (kept []grant, missed int) {
	if len(turns) <= mostTurns {
		return turns, 0
	}
	kept = append(append(kept, turns[:mostTurns-1]...), turns[len(turns)-1])
	return kept, len(turns) - mostTurns
}

func (g grant) says(began time.Time) string {
	says := "granted"
	if g.OccurredAt.After(began) {
		says = "granted " + brief(g.OccurredAt.Sub(began)) + " later"
	}
	after := brief(g.ended.Sub(g.OccurredAt))
	switch g.ending {
	case "released":
		return says + ", released after " + after
	case "revoked":
		return says + ", revoked after " + after
	case "granted":
		return says + ", newest for " + after
	}
	return says
}

// scale maps time to the width.
type scale struct{ from, to time.Time }

func (s scale) x(t time.Time) float64 {
	whole := max(s.to.Sub(s.from), time.Microsecond)
	return leftEdge + (rightEdge-leftEdge)*float64(t.Sub(s.from))/float64(whole)
}

func (s scale) stretch(from, to time.Time) stretch {
	return stretch{s.x(from), max(s.x(to)-s.x(from), .4)}
}

// lines are the moments that make the story. One in between that is near another has
// a row of its own, so that no two texts meet.
func (s scale) lines(turns []grant, story gate.Story) []moment {
	all := []moment{{s.x(s.from), s.from.UTC().Format("15:04:05.000"), "granted", 0}}
	if first := turns[0]; first.ending != "" {
		kind := first.ending
		if kind == "granted" {
			kind = "taken"
		}
		x, row := s.x(first.ended), 0
		if x < 20 || x > 68 {
			row = 1
		}
		all = append(all, moment{x, "+" + brief(first.ended.Sub(s.from)), kind, row})
	}
	return append(all, moment{s.x(s.to), "+" + brief(s.to.Sub(s.from)), "refused", 0})
}

// tell is the picture in words.
func tell(story gate.Story, turns []grant) (told []string) {
	who, last := client(story.Client, story.HolderDigest), story.OccurredAt
	if len(turns) > 0 && turns[0].Token == story.Claim.Token {
		first := turns[0]
		who = whose(first.Grant)
		told = append(told, fmt.Sprintf("%s was granted the lock under token %s at %s UTC.", isolated(who), first.Token, first.OccurredAt.UTC().Format("15:04:05.000 on 2006-01-02")))
		told = append(told, first.tells(turns)...)
		last = first.ended
	}
	arrived := "The"
	if gap := story.OccurredAt.Sub(last); gap > 0 {
		arrived = brief(gap) + " later the"
	}
	sentence := fmt.Sprintf("%s %s by %s", arrived, act(story.Record), isolated(who))
	if story.Claim.Token != 0 {
		sentence += " under token " + story.Claim.Token.String()
	}
	sentence += outcomes[story.Disposition]
	if meaning := codeOf(story.Code).Meaning; meaning != "" {
		sentence += ": " + meaning
	}
	told = append(told, sentence+".")
	if story.Disposition == audit.Refused {
		told = append(told, "Nothing was written.")
	}
	return told
}

var outcomes = map[audit.Disposition]string{
	audit.Refused:  " was refused",
	audit.Event:    " came too late",
	audit.Admitted: " was let through in observe mode, and would be refused otherwise",
}

// tells is how the first turn ended.
func (g grant) tells(turns []grant) []string {
	after := brief(g.ended.Sub(g.OccurredAt))
	switch g.ending {
	case "granted":
		next := turns[1]
		says := fmt.Sprintf("After %s %s took over under token %s", after, isolated(whose(next.Grant)), next.Token)
		if more := len(turns) - 2; more > 0 {
			says += fmt.Sprintf(", and %d more after that", more)
		}
		return []string{says + "."}
	case "released":
		return []string{"It gave the lock back after " + after + "."}
	case "revoked":
		return []string{fmt.Sprintf("After %s %s revoked it: “%s”.", after, isolated(shown(g.by.Principal)), isolated(shown(g.by.Reason)))}
	}
	return nil
}

// act is what was asked for.
func act(r audit.Record) string {
	switch {
	case r.Operation == "renew":
		return "renewal"
	case r.Operation == "release":
		return "release"
	case r.Table == "":
		return r.Operation
	}
	return r.Operation + " of " + isolated(shown(r.Table))
}

func whose(g audit.Grant) string { return client(g.Client, g.HolderDigest) }

// client is the worker's own name, or what tells its holder from others.
func client(name, digest string) string {
	switch {
	case name != "":
		return shown(name)
	case digest == "":
		return "somebody"
	}
	return "holder " + digest[:min(8, len(digest))]
}

// isolated keeps a name's direction of writing from what stands around it.
func isolated(s string) string { return "\u2068" + strings.TrimSpace(s) + "\u2069" }
