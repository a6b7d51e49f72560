package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"

	"github.com/spf13/pflag"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// maxShownError is the maximum length of an error in a table, in characters.
const maxShownError = 80

// outcome is the result of an action on dead letters.
type outcome struct {
	Matched   int                `json:"matched"`
	DryRun    bool               `json:"dry_run"`
	Replayed  []operate.Replayed `json:"replayed,omitempty"`
	Before    []operate.Replayed `json:"replayed_before,omitempty"`
	Discarded []int64            `json:"discarded,omitempty"`
}

// printOutcome prints the result. It prints nothing if the action failed without any effect, because the error says so.
func (a *App) printOutcome(verb, output string, o outcome, err error) error {
	done := len(o.Replayed) + len(o.Discarded)
	switch {
	case err != nil && done+len(o.Before) == 0:
		return nil
	case output == "json":
		return a.printJSON(o)
	case o.DryRun:
		fmt.Fprintf(a.Stdout, "would %s %s\n", verb, letterCount(o.Matched))
		return nil
	case o.Matched == 0:
		fmt.Fprintf(a.Stdout, "nothing to %s: no open dead letter matches\n", verb)
		return nil
	}
	if o.Matched <= 20 {
		for _, r := range o.Replayed {
			fmt.Fprintf(a.Stdout, "%d replayed as %d, workflow execution-%s\n", r.ID, r.ReplayID, r.ReplayExecutionID)
		}
		for _, r := range o.Before {
			fmt.Fprintf(a.Stdout, "%d was already replayed as %d\n", r.ID, r.ReplayID)
		}
	}
	past := map[string]string{"replay": "replayed", "discard": "discarded"}[verb]
	fmt.Fprintf(a.Stdout, "%s %d of %s\n", past, done, letterCount(o.Matched))
	if left := o.Matched - done - len(o.Before); left > 0 && err == nil {
		fmt.Fprintf(a.Stdout, "skipped %d: already handled, or the definition was deleted\n", left)
	}
	return nil
}

func letterCount(n int) string {
	if n == 1 {
		return "1 dead letter"
	}
	return fmt.Sprintf("%d dead letters", n)
}

func (a *App) printDeadLetters(letters []operate.DeadLetter, limit int) error {
	if len(letters) == 0 {
		fmt.Fprintln(a.Stdout, "no dead letters match")
		return nil
	}
	table := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tSTATE\tWORKSPACE\tDEFINITION\tFAILED AGO\tATTEMPTS\tWORKFLOW\tERROR")
	for _, l := range letters {
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", l.ID, l.State, named(l.Workspace, l.WorkspaceID),
			named(l.WorkflowDefinition, l.WorkflowDefinitionID), view.Shortly(l.FailedAgo), l.AttemptCount, howItEnded(l),
			cut(l.LastError))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(letters) == limit {
		fmt.Fprintf(a.Stdout, "there may be more; showing the latest %d failures: see --limit\n", limit)
	}
	return nil
}

func (a *App) printDeadLetter(l operate.DeadLetter, failures []operate.Failure) error {
	table := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	line := lines(table)
	line("item", "%d", l.ID)
	line("workflow", "execution-%s", l.ExecutionID)
	line("run", "%s", view.OrNone(view.Printable(l.RunID)))
	line("state", "%s", l.State)
	if l.MarkedAt != nil {
		line("marked", "%s by %s", stamp(*l.MarkedAt), view.Printable(l.MarkedBy))
	}
	if l.ReplayOf != nil {
		line("replay of", "%d", *l.ReplayOf)
	}
	if l.ReplayID != nil {
		line("replayed as", "%d, workflow execution-%s, %s", *l.ReplayID, view.OrNone(l.ReplayExecutionID),
			view.OrNone(l.ReplayStatus))
	}
	line("workspace", "%s (%s)", orGone(l.Workspace), l.WorkspaceID)
	line("definition", "%s (%s)", orGone(l.WorkflowDefinition), l.WorkflowDefinitionID)
	line("priority", "%d", l.Priority)
	line("params", "%s", view.Printable(string(l.Params)))
	line("attempts", "%d, of which %d failed", l.AttemptCount, l.FailureCount)
	line("enqueued", "%s", stamp(l.CreatedAt))
	if l.DispatchedAt != nil {
		line("dispatched", "%s", stamp(*l.DispatchedAt))
	}
	line("failed", "%s, %s ago", stamp(l.FinishedAt), view.Shortly(l.FailedAgo))
	line("workflow ended", "%s", howItEnded(l))
	line("error", "%s", view.Printable(l.LastError))
	if len(failures) == 0 {
		fmt.Fprintln(table, "\nno earlier failed attempts")
		return table.Flush()
	}
	fmt.Fprintln(table, "\nFAILURE\tATTEMPT\tAT\tREPLICA\tERROR")
	for _, f := range failures {
		fmt.Fprintf(table, "%d\t%d\t%s\t%s\t%s\n", f.Failure, f.Attempt, stamp(f.FailedAt),
			view.OrNone(view.Printable(f.Replica)), view.Printable(f.Error))
	}
	return table.Flush()
}

// printJSON also escapes control characters beyond the first 32, which JSON allows but terminals may interpret.
func (a *App) printJSON(value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	lines, _ := view.IndentJSON(string(text), 0)
	var safe strings.Builder
	for _, r := range lines {
		if r == '\n' || unicode.IsPrint(r) {
			safe.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&safe, `\u%04x`, unit)
		}
	}
	_, err = fmt.Fprintln(a.Stdout, safe.String())
	return err
}

func addOutput(flags *pflag.FlagSet, output *string) {
	flags.StringVarP(output, "output", "o", "table", "output format: table or json")
}

func checkOutput(output string) error {
	if output != "table" && output != "json" {
		return fmt.Errorf("--output is %q: it must be table or json", output)
	}
	return nil
}

// howItEnded describes how the workflow ended.
func howItEnded(l operate.DeadLetter) string {
	if l.RunID == "" {
		return "not started"
	}
	return l.ExecutionStatus
}

func named(name, id string) string {
	if name == "" {
		return id
	}
	return view.Printable(name)
}

func orGone(name string) string {
	if name == "" {
		return "deleted"
	}
	return view.Printable(name)
}

func cut(text string) string {
	if runes := []rune(view.Printable(text)); len(runes) > maxShownError {
		return string(runes[:maxShownError-1]) + "…"
	}
	return view.Printable(text)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// refKey returns the canonical form of a REF: the item's number or its execution's ID.
func refKey(ref string) string {
	if id, err := strconv.ParseInt(ref, 10, 64); err == nil {
		return strconv.FormatInt(id, 10) // normalizes +7 and 007 to 7
	}
	return strings.ToLower(temporal.TrimID(ref))
}

// parseRefs parses references to items by item ID, execution ID or workflow ID.
func parseRefs(refs []string) (items []int64, executions []string, err error) {
	items, executions = []int64{}, []string{}
	for _, ref := range refs {
		key := refKey(ref)
		if operate.IsUUID(key) {
			executions = append(executions, key)
			continue
		}
		id, err := strconv.ParseInt(key, 10, 64)
		if err != nil {
			return nil, nil, fmt.Errorf(
				"%.80q is not an item ID (a number), execution ID (a UUID) or workflow ID (execution-...)", ref)
		}
		items = append(items, id)
	}
	return items, executions, nil
}

// lettersOf reads the named dead letters in the given order. A name that is not a dead letter is an error.
func lettersOf(ctx context.Context, store *operate.Store, refs []string) ([]operate.DeadLetter, error) {
	items, executions, err := parseRefs(refs)
	if err != nil {
		return nil, err
	}
	found, err := store.DeadLetters(ctx, items, executions)
	if err != nil {
		return nil, err
	}
	return inOrder(refs, found, func(l operate.DeadLetter) (int64, string) { return l.ID, l.ExecutionID },
		"is not a dead letter: the item does not exist or has not failed; see `pgdispatch dead list --state any`")
}

// inOrder returns the found entries in the order of refs, without duplicates. A ref that was not found is an error.
func inOrder[T any](refs []string, found []T, keys func(T) (int64, string), missing string) ([]T, error) {
	byRef := map[string]T{}
	for _, one := range found {
		id, execution := keys(one)
		byRef[strconv.FormatInt(id, 10)], byRef[execution] = one, one
	}
	ordered, seen := []T{}, map[int64]bool{}
	for _, ref := range refs {
		one, ok := byRef[refKey(ref)]
		if !ok {
			return nil, fmt.Errorf("%s %s", ref, missing)
		}
		if id, _ := keys(one); !seen[id] {
			seen[id] = true
			ordered = append(ordered, one)
		}
	}
	return ordered, nil
}
