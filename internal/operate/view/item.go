package view

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

// Fact is a named value.
type Fact struct{ Name, Value string }

// Durations returns how long an item has waited and its workflow has run.
func Durations(i operate.Item) []Fact {
	now := i.CreatedAt.Add(i.Age)
	until := func(t *time.Time) time.Time {
		if t == nil {
			return now
		}
		return *t
	}
	facts := []Fact{}
	switch ended := i.ExecutionFinishedAt; {
	case i.StartedAt != nil:
		facts = append(facts, Fact{"From insert to start", Span(i.StartedAt.Sub(i.CreatedAt))})
		name := "Ran for"
		if ended == nil && i.FinishedAt == nil {
			name = "Has run for"
		}
		if ended == nil {
			ended = i.FinishedAt
		}
		facts = append(facts, Fact{name, Span(until(ended).Sub(*i.StartedAt))})
	case i.FinishedAt != nil:
		facts = append(facts, Fact{"From insert to end", Span(i.FinishedAt.Sub(i.CreatedAt)) + ", without a workflow"})
	default:
		facts = append(facts, Fact{"Inserted", Span(i.Age) + " ago"})
	}
	return facts
}

// WhyItWaits says why an item waits, in the same words everywhere. It is empty if the item does not wait, or if its
// workspace is gone.
func WhyItWaits(ctx context.Context, read interface {
	Settings(ctx context.Context) (operate.Settings, error)
	WorkspaceDetail(ctx context.Context, id string) (operate.WorkspaceDetail, bool, error)
	KeyLimitsOf(ctx context.Context, workspaceID, key string) ([]operate.KeyLimit, error)
	Ahead(ctx context.Context, item int64) (int64, error)
}, item operate.Item) (string, error) {
	if item.Status != "PENDING" || item.Unanswered { // which the item alone says
		return Waits(item, operate.Workspace{}, nil, 0, operate.Settings{}), nil
	}
	settings, err := read.Settings(ctx)
	if err != nil {
		return "", err
	}
	w, found, err := read.WorkspaceDetail(ctx, item.WorkspaceID)
	if err != nil || !found {
		return "", err
	}
	keys, err := read.KeyLimitsOf(ctx, item.WorkspaceID, item.LimitKey)
	if err != nil {
		return "", err
	}
	ahead, err := read.Ahead(ctx, item.ID)
	return Waits(item, w.Workspace, keys, ahead, settings), err
}

// Waits says why an item that waits is not started yet, given its workspace, how many due items are ahead of it, and
// the settings. It is empty if the item does not wait.
func Waits(i operate.Item, w operate.Workspace, keys []operate.KeyLimit, ahead int64, s operate.Settings) string {
	limits := fmt.Sprintf("%s runs %s of %s", Printable(w.Name), AtMost(w.Active(), operate.CountLimit),
		Number(int64(w.Limit)))
	switch {
	case i.Status != "PENDING":
		return ""
	case i.Unanswered:
		return triedAgain(i)
	case i.DueIn > 0 && i.FailureCount > 0:
		return fmt.Sprintf("It failed, and is tried again in %s.", Span(i.DueIn))
	case i.DueIn > 0:
		return fmt.Sprintf("It is due in %s.", Span(i.DueIn))
	case s.Paused:
		return "Everything is paused by a setting."
	case s.MaxClaims == 0:
		return "max-claims is 0, so nothing is claimed."
	case w.Paused:
		return fmt.Sprintf("%s is paused.", Printable(w.Name))
	case slices.ContainsFunc(keys, operate.KeyLimit.Full):
		return keyFull(keys[slices.IndexFunc(keys, operate.KeyLimit.Full)])
	case w.Active() >= int64(w.Limit) && w.Burst > w.Limit && !w.Full():
		return fmt.Sprintf("%s; up to %s run while no other workspace needs the workers.", limits,
			Number(int64(w.Burst)))
	case ahead == 0:
		return limits + "; it is next."
	}
	return fmt.Sprintf("%s; %s before it.", limits, AtMost(ahead, operate.CountLimit))
}

// triedAgain says why an item waits that keeps its slot.
func triedAgain(i operate.Item) string {
	next := "It keeps its slot, and is tried again now."
	if i.DueIn > 0 {
		next = fmt.Sprintf("It keeps its slot, and is tried again in %s.", Span(i.DueIn))
	}
	switch {
	case i.GivenUpBy != "":
		return fmt.Sprintf("It was given up by %s: a replica looks it up in Temporal for a minute, and then it ends.",
			Printable(i.GivenUpBy))
	case i.MissingSince != nil:
		return "It is to fail, and Temporal does not find its workflow. It keeps its slot, and fails once all answers of a " +
			"minute agree."
	case i.Tries > 0:
		return fmt.Sprintf("Its start failed %s while others of its namespace started. %s", Counted(i.Tries, "time"), next)
	case i.Uncertain:
		return "Its claim was lost, so its start may have been sent, or not. " + next
	}
	return "Its start was not answered. " + next
}

// keyFull says that a limit key is full, and where.
func keyFull(l operate.KeyLimit) string {
	where := whereLimited(l)
	if l.MaxConcurrent != nil && l.Active >= int64(*l.MaxConcurrent) {
		return fmt.Sprintf("The key %s runs %s of %s %s.", Printable(l.Key), AtMost(l.Active, operate.CountLimit),
			Number(int64(*l.MaxConcurrent)), where)
	}
	return fmt.Sprintf("The key %s has used up its rate of %s %s.", Printable(l.Key), l.Rates, where)
}
