package view

import (
	"fmt"
	"slices"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

// WorkspacePlots returns the plots of a workspace, or nil if nothing was started or ended.
func WorkspacePlots(stretches []operate.Stretch) []Plot {
	if !slices.ContainsFunc(stretches, operate.Stretch.Active) {
		return nil
	}
	ends := plotOf(stretches, "Started and ended", []string{"completed", "failed", "cancelled"}, whole,
		func(s operate.Stretch) Bar {
			if !s.Known {
				return Bar{}
			}
			completed, failed := float64(s.Completed), float64(s.Failed)
			return Bar{Tops: []float64{completed, completed + failed, completed + failed + float64(s.Cancelled)},
				Line: float64(s.Started), Words: fmt.Sprintf("%s started, %s completed, %s failed, %s cancelled",
					Number(s.Started), Number(s.Completed), Number(s.Failed), Number(s.Cancelled))}
		})
	ends.Line = "started"
	waits := plotOf(stretches, "Time to start", []string{"mean", "longest"}, seconds, func(s operate.Stretch) Bar {
		if s.Started == 0 {
			return Bar{}
		}
		mean := s.Waited / time.Duration(s.Started)
		return Bar{Tops: []float64{mean.Seconds(), s.Longest.Seconds()},
			Words: fmt.Sprintf("mean %s, longest %s", Span(mean), Span(s.Longest))}
	})
	return []Plot{ends, waits}
}

// WorkspaceTotals describes what was started and ended.
func WorkspaceTotals(stretches []operate.Stretch) string {
	var sum operate.Stretch
	for _, all := range operate.JoinStretches(stretches, max(len(stretches), 1)) {
		sum = all
	}
	return fmt.Sprintf("%s started, %s completed, %s failed, %s cancelled.", Number(sum.Started), Number(sum.Completed),
		Number(sum.Failed), Number(sum.Cancelled))
}
