// Package report writes the results of a run to the terminal and to a Markdown file.
package report

import (
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/audit"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/fault"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/run"
)

// matrixSize is the number of faults in the matrix.
const matrixSize = 76

// Print writes the outcome to a terminal.
func Print(w io.Writer, o *run.Outcome) {
	_, _ = fmt.Fprintf(w, "\nseed %d, %s\n", o.Seed, o.Length.Round(time.Second))
	for _, r := range o.Results {
		_, _ = fmt.Fprintf(w, "  %-12s %-26s %s: %s\n", resultVerdict(r), r.Fault.Name, r.Fault.Figure, r)
	}
	if o.LivenessLimit > 0 {
		_, _ = fmt.Fprintf(w, "  %-12s %-26s %.1f s (limit %.0f)\n", verdict(o.Liveness <= o.LivenessLimit),
			"faults that stay", o.Liveness.Seconds(), o.LivenessLimit.Seconds())
	}
	for _, line := range check(o) {
		_, _ = fmt.Fprintln(w, line)
	}
	for _, v := range o.Check.Violations {
		_, _ = fmt.Fprintln(w, "VIOLATION", v)
	}
	_, _ = fmt.Fprintf(w, "%d violations\n", len(o.Check.Violations))
}

func verdict(ok bool) string {
	if ok {
		return "ok"
	}
	return "NOT OK"
}

// resultVerdict distinguishes a fault that hit nothing from one that was withstood.
func resultVerdict(r fault.Result) string {
	if r.Err == nil && !r.Measured {
		return "not measured"
	}
	return verdict(r.OK())
}

// missed names the figures that are over their limit or missing.
func missed(o *run.Outcome) []string {
	var list []string
	for _, r := range o.Results {
		if !r.OK() || !r.Measured {
			list = append(list, r.Fault.Name)
		}
	}
	if o.Liveness > o.LivenessLimit {
		list = append(list, "faults that stay")
	}
	return list
}

// names formats names in brackets. It returns an empty string for an empty list.
func names(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return " (" + strings.Join(list, ", ") + ")"
}

// check formats the check as lines.
func check(o *run.Outcome) []string {
	c := o.Check
	lines := []string{
		fmt.Sprintf("%d random faults, of which %d could not be injected because of others", o.Random, o.Failed),
		fmt.Sprintf("%d rows acknowledged, %d rolled back, %d whose commit was not answered: %d of these exist",
			c.Acknowledged, c.RolledBack, c.Unknown, c.Resolved),
		fmt.Sprintf("%d rows lost because a standby without them took over, "+
			"all of them acknowledged after it stopped following; "+
			"%d starts over a limit, or of withdrawn items, because of claims lost with them",
			c.Lost, c.Excused),
		fmt.Sprintf("%d attempts beyond an item's first", c.Repeated),
		fmt.Sprintf("%d changes replayed in commit order: %d claims, %d expired leases, "+
			"at most %d leased at once (W %d); %d items failed because they lost three holders in a row; "+
			"%d were deleted after their retention",
			c.Replay.Changes, c.Replay.Claims, c.Replay.Expired, c.Replay.Leased, lab.Cap, len(c.Replay.Orphans),
			c.Replay.Deleted),
		fmt.Sprintf("%d violations planted in copies of this record, each of which was seen", c.Planted),
		fmt.Sprintf("%d signals, %d calls of enqueue with a key and %d reported ends compared with what they did",
			c.Signals, c.Calls, c.Pushes),
		fmt.Sprintf("%d items with an ID of their own, of which %d were refused because of another run and %d followed one; "+
			"%d cancelled as too late", c.Kinds.Named, c.Kinds.Refused, c.Kinds.Followed, c.Kinds.Late),
		fmt.Sprintf("%d runs in Temporal, %d of them activities, %d stopped; "+
			"the most of a workspace at once, by Temporal's own times:",
			c.Runs, c.Kinds.Activities, c.Kinds.Stopped),
	}
	for _, name := range slices.Sorted(maps.Keys(c.Running)) {
		lines = append(lines, fmt.Sprintf("  %s %d of %d", name, c.Running[name][0], c.Running[name][1]))
	}
	lines = append(lines, fmt.Sprintf("everything had ended %.1f s after the last fault", c.Quiet.Seconds()))
	for _, r := range c.Resources {
		lines = append(lines, fmt.Sprintf("%s: %d goroutines, %d files, %d MiB; %d sessions of all replicas",
			r.Replica, r.Goroutines, r.Files, r.Memory>>10, r.Sessions))
	}
	return lines
}

// Write writes the outcome as a document to path.
func Write(path string, o *run.Outcome) error {
	if err := os.WriteFile(path, []byte(Markdown(o)), 0o644); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// Markdown returns the outcome as a document.
func Markdown(o *run.Outcome) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	covered := numbers(o)
	missed := missed(o)
	line("# What was broken, and what held\n")
	line("Written by `make chaos`. Seed %d, %s, on %d CPUs, %s.\n",
		o.Seed, o.Length.Round(time.Second), runtime.NumCPU(), time.Now().UTC().Format(time.DateOnly))
	line("%d replicas with %d workers each, lease %s, poll interval %s, start timeout %s, W %d. "+
		"A real Postgres with a standby and a real",
		lab.Replicas, lab.Workers, lab.Lease, lab.PollInterval, lab.StartTimeout, lab.Cap)
	line("Temporal server, each killed, frozen and cut off while applications keep enqueuing " +
		"and workflows end all the time.\n")
	line("**%d violations.** **%d of %d figures are missed or were not measured%s.** "+
		"Made and measured: %d of the %d numbers of the fault matrix: %s.\n",
		len(o.Check.Violations), len(missed), len(o.Results)+1, names(missed), len(covered), matrixSize, covered)
	line("All times are shorter than in the matrix: " +
		"what it lets last for minutes or hours lasts for seconds here, a few leases.\n")
	line("| fault | matrix | injected | lifted | figure | measured | limit | |")
	line("|---|---|---|---|---|---|---|---|")
	results := slices.Clone(o.Results)
	slices.SortStableFunc(results, func(a, b fault.Result) int { return order(a.Fault) - order(b.Fault) })
	for _, r := range results {
		unit := r.Fault.Unit
		if unit == "" {
			unit = "s"
		}
		measured := fmt.Sprintf("%.2f %s", r.Value, unit)
		if !r.Measured {
			measured = "–"
		}
		line("| `%s` | %s | %s | %s | %s | %s | %.0f %s | %s |",
			r.Fault.Name, list(r.Fault.Matrix), r.Fault.How, r.Fault.Lift, r.Fault.Figure,
			measured, r.Fault.Limit, unit, resultVerdict(r))
	}
	if o.LivenessLimit > 0 {
		line("| faults that stay | 75 | one replica frozen, one cut off from Temporal, the third far from Postgres "+
			"| after the figure | until the third has filled every slot twice | %.2f s | %.0f s | %s |",
			o.Liveness.Seconds(), o.LivenessLimit.Seconds(), verdict(o.Liveness <= o.LivenessLimit))
	}
	line("\nThen random faults, several at once, and the check after everything had ended:\n")
	for _, text := range check(o) {
		if rest, ok := strings.CutPrefix(text, "  "); ok {
			line("  - %s", rest)
			continue
		}
		line("- %s", text)
	}
	line("\nThe check replays every change of every item in commit order (%s; %s; %s; %s; %s; %s; %s; %s; %s; %s), "+
		"compares the applications' own books with the table",
		audit.RuleMoves, audit.RuleCap, audit.RuleLimit, audit.RuleKey, audit.RuleRate, audit.RuleTokens, audit.RuleExpiry,
		audit.RulePause, audit.RuleLate, audit.RuleKept)
	line("(%s; %s; %s; %s; %s; %s),", audit.RuleCalls, audit.RuleWaiting, audit.RuleSkip, audit.RuleParams,
		audit.RuleQuiet, audit.RulePushed)
	line("(%s; %s; %s) and both with Temporal's list of runs and what workflows received "+
		"(%s; %s; %s; %s; %s; %s; %s; %s).",
		audit.RuleLost, audit.RuleEnd, audit.RuleCounted, audit.RuleOneRun, audit.RulePhantom, audit.RuleRunning,
		audit.RuleSignalOnce, audit.RuleBeside, audit.RuleRefused, audit.RuleFollows, audit.RuleInOrder)
	return b.String() + violations(o)
}

func violations(o *run.Outcome) string {
	var b strings.Builder
	for _, v := range o.Check.Violations {
		fmt.Fprintf(&b, "- **violation**: %s\n", v)
	}
	return b.String()
}

// order returns a fault's position in the table of faults.
func order(f *fault.Fault) int {
	return slices.IndexFunc(fault.All(), func(other *fault.Fault) bool { return other.Name == f.Name })
}

// list joins numbers with commas.
func list(numbers []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(numbers), " ", ", "), "[]")
}

// matrix holds numbers of the fault matrix.
type matrix []int

// String joins the numbers with commas.
func (m matrix) String() string { return list(m) }

// numbers returns the matrix numbers that were injected and measured. The 24-hour soak (74) is never among them.
func numbers(o *run.Outcome) matrix {
	seen := map[int]bool{}
	if o.LivenessLimit > 0 {
		seen[75] = true
	}
	for _, r := range o.Results {
		if !r.Measured {
			continue
		}
		for _, n := range r.Fault.Matrix {
			seen[n] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}
