package web

import (
	"context"
	"errors"

	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

// banner returns what stops all starts, for the top of each page. It is nil if nothing does, if the page says so itself,
// or if the database does not answer.
func (s *Site) banner(ctx context.Context, name string, err error) *view.Outage {
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
