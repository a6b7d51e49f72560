package view

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

// Plot is the course of one figure, one bar for each minute or stretch.
type Plot struct {
	Name string
	// Parts names the parts of a bar, from the bottom up. A single part is the whole figure, and its name is the unit.
	Parts []string
	// Line names a figure that is drawn as a line over the bars. Empty means none.
	Line string
	Bars []Bar
	Most float64 // height of the highest bar, or of the line

	Write func(float64) string // formats a height with its unit
}

// Bar is one minute or stretch. Tops holds the upper end of each part. It is empty if nothing is known of that minute.
type Bar struct {
	At    time.Time
	Tops  []float64
	Line  float64 // see Plot.Line
	Words string  // the values as text, with units
	// Stop is why nothing was started then. Empty means that nothing is known to have stopped starts.
	Stop string
}

// Top formats the height of the highest bar with its unit, or a dash if nothing is known of any minute.
func (p Plot) Top() string {
	if !slices.ContainsFunc(p.Bars, func(b Bar) bool { return len(b.Tops) > 0 }) {
		return unknown
	}
	return p.Write(p.Most)
}

// Timed reports whether the heights are seconds.
func (p Plot) Timed() bool { return p.Parts[0] == "p50" || p.Parts[0] == "mean" }

// Height returns the height of the bar or, if it is higher, of the line. It is 0 if nothing is known.
func (b Bar) Height() float64 {
	if len(b.Tops) == 0 {
		return 0
	}
	return max(b.Tops[len(b.Tops)-1], b.Line)
}

// unknown is the text for a minute of which nothing is known.
const unknown = "–"

// Plots returns the plots of an overview's minutes, or nil if it has none.
func Plots(o operate.Overview) []Plot {
	if len(o.Minutes) == 0 {
		return nil
	}
	count := func(n float64) string { return Count(int64(n)) }
	level := func(of func(operate.Minute) *int64) func(operate.Minute) Bar {
		return func(m operate.Minute) Bar {
			if n := of(m); n != nil {
				return Bar{Tops: []float64{float64(*n)}, Words: Count(*n)}
			}
			return Bar{}
		}
	}
	return []Plot{
		plotOf(o.Minutes, "Waiting", []string{"items"}, count, level(func(m operate.Minute) *int64 { return m.Waiting })),
		plotOf(o.Minutes, "Claimed", []string{"items"}, count, level(func(m operate.Minute) *int64 { return m.Claimed })),
		plotOf(o.Minutes, "Running", []string{"workflows"}, count, level(func(m operate.Minute) *int64 { return m.Running })),
		plotOf(o.Minutes, "Starts", []string{"per second"}, Rate, func(m operate.Minute) Bar {
			return Bar{Tops: []float64{m.StartsPerSecond()}, Words: Rate(m.StartsPerSecond())}
		}),
		plotOf(o.Minutes, "Due to started", []string{"p50", "p99"}, seconds,
			latencyBar(func(m operate.Minute) operate.Waits { return m.Waits })),
		plotOf(o.Minutes, "Startable to started", []string{"p50", "p99"}, seconds,
			latencyBar(func(m operate.Minute) operate.Waits { return m.StartableWaits })),
		plotOf(o.Minutes, "Ends per minute", []string{"completed", "failed"}, whole, func(m operate.Minute) Bar {
			return Bar{Tops: []float64{float64(m.Completed), float64(m.Completed + m.Failed)},
				Words: fmt.Sprintf("%s completed, %s failed", Number(m.Completed), Number(m.Failed))}
		}),
	}
}

// Throughput returns the plot of what was started and ended per minute.
func Throughput(o operate.Overview) Plot {
	p := plotOf(o.Minutes, "Per minute", []string{"completed", "failed"}, whole, func(m operate.Minute) Bar {
		started := 60 * m.StartsPerSecond()
		return Bar{Tops: []float64{float64(m.Completed), float64(m.Completed + m.Failed)}, Line: started,
			Words: fmt.Sprintf("%s started, %s completed, %s failed", whole(started), Number(m.Completed), Number(m.Failed))}
	})
	p.Line = "started"
	return p
}

// whole formats a height that is a number of things.
func whole(n float64) string { return Number(int64(n + .5)) }

// seconds formats a height in seconds.
func seconds(s float64) string { return Span(time.Duration(s * float64(time.Second))) }

func latencyBar(of func(operate.Minute) operate.Waits) func(operate.Minute) Bar {
	return func(m operate.Minute) Bar {
		waits := of(m)
		if waits.Total() == 0 {
			return Bar{}
		}
		p50, p99 := waits.Quantile(.5), waits.Quantile(.99)
		return Bar{Tops: []float64{p50.Seconds(), p99.Seconds()}, Words: fmt.Sprintf("p50 %s, p99 %s", Span(p50), Span(p99))}
	}
}

func plotOf[T interface{ Begins() time.Time }](of []T, name string, parts []string, write func(float64) string,
	bar func(T) Bar) Plot {
	p := Plot{Name: name, Parts: parts, Write: write}
	for _, stretch := range of {
		b := bar(stretch)
		b.At = stretch.Begins().UTC()
		if b.Tops == nil {
			b.Words = unknown
		}
		p.Most = max(p.Most, b.Height())
		p.Bars = append(p.Bars, b)
	}
	return p
}

// Lined is the Sparkline with the height of its highest bar. It is empty if nothing happened.
func (p Plot) Lined() string {
	if p.Most == 0 {
		return ""
	}
	return p.Sparkline() + " " + p.Top()
}

// Sparkline draws the plot in one line, one character a minute.
func (p Plot) Sparkline() string {
	line := []rune{}
	for _, b := range p.Bars {
		step := 0
		if height := b.Height(); height > 0 {
			step = max(int(height/p.Most*8), 1)
		}
		line = append(line, []rune(" ▁▂▃▄▅▆▇█")[step])
	}
	return string(line)
}

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

// Stop is a time in which nothing was started, and why. To is zero if it goes on.
type Stop struct {
	From, To time.Time
	Why      string
}

// Stops returns when all claims were paused, by the changes of the settings, the newest first, and what stops all
// starts now.
func Stops(o operate.Overview, changes []operate.Administered) []Stop {
	stops, until := []Stop{}, time.Time{}
	for _, c := range changes {
		var details struct{ Paused []bool }
		if json.Unmarshal(c.Details, &details) != nil || len(details.Paused) != 2 {
			continue
		}
		if details.Paused[1] {
			stops = append(stops, Stop{c.At, until, "paused by " + Printable(c.Who)})
		}
		until = c.At
	}
	if now := OutageOf(o); now != nil && now.Since != nil && !o.Depth.Paused {
		stops = append(stops, Stop{From: *now.Since, Why: "nothing was started"})
	}
	return stops
}

// Marked returns the plots with each bar that is within a stop marked. A minute that no replica counted is marked, too.
func Marked(plots []Plot, stops []Stop, minutes []operate.Minute) []Plot {
	for _, p := range plots {
		for n := range p.Bars {
			b := &p.Bars[n]
			next := time.Now()
			if n+1 < len(p.Bars) {
				next = p.Bars[n+1].At
				if minutes[n].Waiting == nil {
					b.Stop = "no replica ran"
				}
			}
			for _, s := range stops {
				if s.From.Before(next) && (s.To.IsZero() || s.To.After(b.At)) {
					b.Stop = s.Why
				}
			}
		}
	}
	return plots
}
