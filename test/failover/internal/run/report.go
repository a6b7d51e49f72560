package run

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// Markdown returns the outcome as a document.
func (o *Outcome) Markdown() string {
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, "# Failover\n\nSeed %d, %s, %d events.\n\n", o.Seed, o.Length.Round(time.Second), o.events())
	b.WriteString("| cluster | event | gap of acknowledgements (s) | starts resumed after (s) | " +
		"longest silence (s) | slowest start (s) |\n")
	b.WriteString("|---|---|---|---|---|---|\n")
	for _, r := range o.Results {
		for _, t := range r.Times {
			_, _ = fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n",
				r.Name, t.Kind, seconds(t.Gap), resumed(t.Resumed, t.Never), seconds(t.Silence), seconds(t.Slowest))
		}
	}

	b.WriteString("\n| cluster | events | acknowledged | not answered | lost | started and rewound | started twice | " +
		"starts resumed after, median and most (s) |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range o.Results {
		median, most := r.resumptions()
		_, _ = fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %d | %s, %s |\n", r.Name, len(r.Times), r.Acknowledged,
			r.Unknown, len(r.Lost), len(r.Rewound), len(r.Twice), seconds(median), seconds(most))
	}

	b.WriteString("\n")
	for _, r := range o.Results {
		if r.Stuck > 0 {
			_, _ = fmt.Fprintf(&b, "- %s: Patroni named no synchronous standby until its note of the last one was removed, "+
				"%d times.\n", r.Name, r.Stuck)
		}
		for _, v := range r.Violations {
			_, _ = fmt.Fprintf(&b, "- VIOLATION in %s: %s\n", r.Name, v)
		}
	}
	if o.OK() {
		b.WriteString("No violation.\n")
	}
	return b.String()
}

// events returns how many events there were.
func (o *Outcome) events() (n int) {
	for _, r := range o.Results {
		n += len(r.Times)
	}
	return n
}

// resumptions returns the median and the longest time until starts resumed.
func (r Result) resumptions() (median, most time.Duration) {
	var all []time.Duration
	for _, t := range r.Times {
		all = append(all, t.Resumed)
	}
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)-1]
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }

func resumed(d time.Duration, never bool) string {
	if never {
		return "never"
	}
	return seconds(d)
}

// Print prints the outcome, and writes it to a file unless the path is empty.
func (o *Outcome) Print(w io.Writer, path string) error {
	_, _ = fmt.Fprint(w, "\n", o.Markdown())
	if path == "" {
		return nil
	}
	if err := os.WriteFile(path, []byte(o.Markdown()), 0o644); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
