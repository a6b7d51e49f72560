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
	number := func(n float64) string { return Number(int64(n)) }
	known := func(of func(operate.Stretch) Bar) func(operate.Stretch) Bar {
		return func(s operate.Stretch) Bar {
			if !s.Known {
				return Bar{}
			}
			return of(s)
		}
	}
	return []Plot{
		plotOf(stretches, "Starts", []string{"items"}, number, known(func(s operate.Stretch) Bar {
			return Bar{Tops: []float64{float64(s.Started)}, Words: Number(s.Started)}
		})),
		plotOf(stretches, "Ends", []string{"completed", "failed", "cancelled"}, number, known(func(s operate.Stretch) Bar {
			completed, failed := float64(s.Completed), float64(s.Failed)
			return Bar{Tops: []float64{completed, completed + failed, completed + failed + float64(s.Cancelled)},
				Words: fmt.Sprintf("%s completed, %s failed, %s cancelled", Number(s.Completed), Number(s.Failed),
					Number(s.Cancelled))}
		})),
		plotOf(stretches, "Due to started", []string{"mean", "longest"}, seconds, func(s operate.Stretch) Bar {
			if s.Started == 0 {
				return Bar{}
			}
			mean := s.Waited / time.Duration(s.Started)
			return Bar{Tops: []float64{mean.Seconds(), s.Longest.Seconds()},
				Words: fmt.Sprintf("mean %s, longest %s", Span(mean), Span(s.Longest))}
		}),
	}
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
