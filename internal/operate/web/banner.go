package web

import (
	"context"
	"errors"
	"net/http"

	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/pgdispatch/pgdispatch/internal/signin"
)

// banner returns what stops all starts, for the top of each page. It is nil if nothing does, if the page says so
// itself, or if the database does not answer.
func (s *Site) banner(ctx context.Context, name string, err error) *view.Concern {
	var known problem
	var again shown
	if name == "overview" || err != nil && !errors.As(err, &known) && !errors.As(err, &again) {
		return nil
	}
	seen, err := s.standing(ctx)
	if err != nil {
		return nil
	}
	return view.OutageOf(seen)
}

// signedIn returns who sends a request.
func (s *Site) signedIn(r *http.Request) visitor {
	if v, known := signin.From(r.Context()); known {
		role := s.role
		if role == "" {
			role = map[bool]string{true: "operator", false: "viewer"}[v.Operator]
		}
		return visitor{Who: v.Name, Role: role, SignsOut: v.Via == "oidc"}
	}
	name, _, basic := r.BasicAuth()
	return visitor{Who: name, SignsOut: basic}
}
