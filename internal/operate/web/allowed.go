package web

import (
	"context"
	"net/http"
	"slices"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

var (
	// onlyViewed explains why a visitor may not change what they see.
	onlyViewed = problem{http.StatusForbidden, "Nothing was changed: you may view this workspace, but not act in it.",
		"Ask for a group that has the role operator in it."}
	// ofAll explains why a visitor of some workspaces may not change the settings.
	ofAll = problem{http.StatusForbidden,
		"Nothing was changed: this applies to all workspaces, and you may act in some only.",
		"Ask an operator of all workspaces. You can pause a single workspace on its page."}
	noSuchItem = problem{http.StatusNotFound, "Item not found.",
		"Retention may have deleted it, or its insert was never committed."}
	noSuchWorkspace = problem{http.StatusNotFound, "Workspace not found.",
		"It may have been deleted. See the list of workspaces."}
)

// allowed makes the changes that an operator of some workspaces may make. It embeds nothing, for the same reason as
// confined.
type allowed struct {
	to Changer
	// read is what the visitor sees.
	read Reader
	// acts has the IDs of the workspaces in which the visitor may act.
	acts map[string]bool
}

func (a allowed) ChangeWorkspace(ctx context.Context, id, who, command string,
	c operate.WorkspaceChange) (operate.Change, error) {
	if a.acts[id] {
		return a.to.ChangeWorkspace(ctx, id, who, command, c)
	}
	_, seen, err := a.read.WorkspaceDetail(ctx, id)
	if err == nil {
		err = noSuchWorkspace
	}
	if seen {
		err = onlyViewed
	}
	return nil, err
}

func (a allowed) SetSettings(context.Context, *int, *bool, *int, string) (operate.SettingsChange, error) {
	return operate.SettingsChange{}, ofAll
}

// mine returns the items that the visitor may change. It is an error if there are none and the visitor sees some.
func (a allowed) mine(ctx context.Context, items []int64, executions []string) (mine []operate.Item, err error) {
	seen, err := a.read.Items(ctx, items, executions, false)
	if err != nil {
		return nil, err
	}
	mine = slices.DeleteFunc(slices.Clone(seen), func(i operate.Item) bool { return !a.acts[i.WorkspaceID] })
	if len(mine) == 0 && len(seen) > 0 {
		return nil, onlyViewed
	}
	return mine, nil
}

// each calls do with those of the items that the visitor may change.
func each[T any](ctx context.Context, a allowed, items []int64, who string,
	do func(context.Context, []int64, string) ([]T, error)) ([]T, error) {
	mine, err := a.mine(ctx, items, nil)
	if err != nil || len(mine) == 0 {
		return nil, err
	}
	ids := make([]int64, len(mine))
	for n, item := range mine {
		ids[n] = item.ID
	}
	slices.Sort(ids)
	return do(ctx, ids, who)
}

func (a allowed) CancelItems(ctx context.Context, items []int64, who string) ([]int64, error) {
	return each(ctx, a, items, who, a.to.CancelItems)
}

func (a allowed) RetryItems(ctx context.Context, items []int64, who string) ([]int64, error) {
	return each(ctx, a, items, who, a.to.RetryItems)
}

func (a allowed) ReplayAll(ctx context.Context, items []int64, who string) ([]operate.Replayed, error) {
	return each(ctx, a, items, who, a.to.ReplayAll)
}

func (a allowed) Discard(ctx context.Context, items []int64, who string) ([]int64, error) {
	return each(ctx, a, items, who, a.to.Discard)
}

// execution refuses an execution that the visitor may not change.
func (a allowed) execution(ctx context.Context, id string) error {
	mine, err := a.mine(ctx, nil, []string{id})
	if err == nil && len(mine) == 0 {
		err = noSuchItem
	}
	return err
}

func (a allowed) RequestStop(ctx context.Context, stop temporal.Stop) (string, error) {
	if err := a.execution(ctx, stop.ExecutionID); err != nil {
		return "", err
	}
	return a.to.RequestStop(ctx, stop)
}

func (a allowed) ResendSignal(ctx context.Context, id int64, executionID, who string) (operate.Resent, bool, error) {
	if err := a.execution(ctx, executionID); err != nil {
		return operate.Resent{}, false, err
	}
	return a.to.ResendSignal(ctx, id, executionID, who)
}

func (a allowed) Replay(ctx context.Context, executionID, who string) (operate.Replay, error) {
	if err := a.execution(ctx, executionID); err != nil {
		return operate.Replay{}, err
	}
	return a.to.Replay(ctx, executionID, who)
}
