package web

import (
	"context"
	"errors"
	nethttp "net/http"

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
	seen, err := s.glance(ctx)
	if err != nil {
		return nil
	}
	return view.OutageOf(seen.Overview)
}

// signedIn returns who sends a request, and whether they can sign out here: not of a proxy.
func signedIn(r *nethttp.Request) (who string, signsOut bool) {
	if name, _, basic := r.BasicAuth(); basic {
		return name, true
	}
	visitor, known := signin.From(r.Context())
	return visitor.Name, known && visitor.Via == "oidc"
}
