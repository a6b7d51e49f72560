package demo

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

const (
	// visibilityTimeout bounds the wait until Temporal's visibility, which lags behind, lists all runs.
	visibilityTimeout = 15 * time.Second
	// visibilityInterval is how often the list is read meanwhile.
	visibilityInterval = 200 * time.Millisecond
	// namedInCheck is how many offenders a failed check names.
	namedInCheck = 5
)

// check is a condition that must hold at the end.
type check struct {
	// Name states the condition.
	Name string
	// Wrong lists the violations. It is empty if the condition holds.
	Wrong []string
}

// String returns the check and its result as one line.
func (c check) String() string {
	if len(c.Wrong) == 0 {
		return "  ok    " + c.Name
	}
	shown := c.Wrong[:min(len(c.Wrong), namedInCheck)]
	return fmt.Sprintf("  WRONG %s: %d found: %s", c.Name, len(c.Wrong), strings.Join(shown, "; "))
}

// outcome is how an item ended.
type outcome struct {
	ItemID      int64
	ExecutionID string
	Status      string
	ShouldFail  bool
	LastError   string
}

// workflowID returns the ID of the item's workflow in Temporal.
func (o outcome) workflowID() string { return "execution-" + o.ExecutionID }

// checkOutcomes requires that every item completed, except those that were asked to fail, which must have failed with
// an error.
func checkOutcomes(outcomes []outcome) check {
	failing := 0
	c := check{}
	for _, o := range outcomes {
		want := "COMPLETED"
		if o.ShouldFail {
			failing++
			want = "FAILED"
		}
		switch {
		case o.Status != want:
			c.Wrong = append(c.Wrong,
				fmt.Sprintf("item %d is %s, not %s (%s)", o.ItemID, o.Status, want, firstLine(o.LastError)))
		case o.ShouldFail && o.LastError == "":
			c.Wrong = append(c.Wrong, fmt.Sprintf("item %d failed without an error", o.ItemID))
		}
	}
	c.Name = fmt.Sprintf("%d items completed, %d failed on purpose", len(outcomes)-failing, failing)
	if len(outcomes) == 0 {
		c.Wrong = append(c.Wrong, "there are no items")
	}
	return c
}

// checkPeaks requires that no workspace exceeded its limit at any moment.
func checkPeaks(workspaces []workspace) check {
	c := check{Name: "no workspace over its limit at any moment"}
	for _, w := range workspaces {
		if w.Peak > w.Slots {
			c.Wrong = append(c.Wrong, fmt.Sprintf("%s had %d running at once, its limit is %d", w.Name, w.Peak, w.Slots))
		}
	}
	return c
}

// checkWorkflows requires that Temporal ran exactly one workflow for each item, and nothing else. runs holds one
// workflow ID per run.
func checkWorkflows(outcomes []outcome, runs []string) check {
	count := make(map[string]int, len(runs))
	for _, id := range runs {
		count[id]++
	}
	c := check{Name: fmt.Sprintf("%d workflows in Temporal, exactly one for each item", len(runs))}
	for _, o := range outcomes {
		if n := count[o.workflowID()]; n != 1 {
			c.Wrong = append(c.Wrong, fmt.Sprintf("item %d has %d runs of %s", o.ItemID, n, o.workflowID()))
		}
		delete(count, o.workflowID())
	}
	for _, id := range slices.Sorted(maps.Keys(count)) {
		c.Wrong = append(c.Wrong, fmt.Sprintf("%s belongs to no item", id))
	}
	return c
}

// listRuns returns the workflow IDs of all runs of the namespace. It polls until at least want runs are listed, or
// until visibilityTimeout has passed.
func listRuns(ctx context.Context, c client.Client, want int) ([]string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*visibilityTimeout,
		fmt.Errorf("took longer than %s", 2*visibilityTimeout))
	defer cancel()
	deadline := time.Now().Add(visibilityTimeout)
	tick := time.NewTicker(visibilityInterval)
	defer tick.Stop()
	for {
		runs, err := listRunsOnce(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("list workflows: %w", err)
		}
		if len(runs) >= want || time.Now().After(deadline) {
			return runs, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("list workflows: %w", context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// listRunsOnce reads all pages of the list.
func listRunsOnce(ctx context.Context, c client.Client) ([]string, error) {
	var runs []string
	var page []byte
	for {
		list, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{NextPageToken: page})
		if err != nil {
			return nil, err
		}
		for _, info := range list.GetExecutions() {
			runs = append(runs, info.GetExecution().GetWorkflowId())
		}
		if page = list.GetNextPageToken(); len(page) == 0 {
			return runs, nil
		}
	}
}

// firstLine returns text up to its first line break.
func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
