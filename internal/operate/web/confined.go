package web

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

// confined reads what a visitor of some workspaces may see. It embeds nothing, so that a new method of Reader does not
// compile before it is confined too. Items, executions and workspaces of others are as unknown as those that do not
// exist.
type confined struct {
	of Reader
	// seen has the workspaces by ID, named has them by name.
	seen  map[string]bool
	named []operate.WorkspaceName
}

// ids returns the IDs of all workspaces seen.
func (c confined) ids() []string {
	ids := make([]string, len(c.named))
	for n, w := range c.named {
		ids[n] = w.ID
	}
	return ids
}

// only returns those of the workspaces that are seen. Nil stands for all that are seen.
func (c confined) only(workspaces []string) []string {
	if workspaces == nil {
		return c.ids()
	}
	return slices.DeleteFunc(append([]string{}, workspaces...), func(id string) bool {
		return !c.seen[strings.ToLower(id)]
	})
}

func (c confined) Overview(ctx context.Context) (operate.Overview, error) {
	return c.of.OverviewOf(ctx, c.ids())
}

func (c confined) OverviewOf(ctx context.Context, workspaces []string) (operate.Overview, error) {
	return c.of.OverviewOf(ctx, c.only(workspaces))
}

func (c confined) ListWorkspaces(ctx context.Context, search string, by operate.WorkspaceOrder,
	after *operate.WorkspaceKey, atMost int) ([]operate.WorkspaceRow, error) {
	return c.of.ListWorkspacesOf(ctx, c.ids(), search, by, after, atMost)
}

func (c confined) ListWorkspacesOf(ctx context.Context, workspaces []string, search string, by operate.WorkspaceOrder,
	after *operate.WorkspaceKey, atMost int) ([]operate.WorkspaceRow, error) {
	return c.of.ListWorkspacesOf(ctx, c.only(workspaces), search, by, after, atMost)
}

func (c confined) find(atMost int, is func(operate.WorkspaceName) bool) (found []operate.WorkspaceName) {
	for _, w := range c.named {
		if len(found) < atMost && is(w) {
			found = append(found, w)
		}
	}
	return found
}

// foundByName is how many workspaces FindWorkspaces returns of one name.
const foundByName = 10

func (c confined) FindWorkspaces(_ context.Context, idOrName string) ([]operate.WorkspaceName, error) {
	return c.find(foundByName, func(w operate.WorkspaceName) bool {
		return w.ID == strings.ToLower(idOrName) || w.Name == idOrName
	}), nil
}

func (c confined) CompleteWorkspaces(_ context.Context, beginning string, atMost int) ([]operate.WorkspaceName, error) {
	return c.find(atMost, func(w operate.WorkspaceName) bool { return strings.HasPrefix(w.Name, beginning) }), nil
}

func (c confined) WorkspacesNamed(_ context.Context, ids, names []string, atMost int) ([]operate.WorkspaceName, error) {
	return c.find(atMost, func(w operate.WorkspaceName) bool {
		return slices.Contains(ids, w.ID) || slices.Contains(names, w.Name)
	}), nil
}

func (c confined) ListItems(ctx context.Context, f operate.ItemFilter, status string, workspaces []string,
	definition string, atMost int) (operate.ItemPage, error) {
	return c.of.ListItems(ctx, f, status, c.only(workspaces), definition, atMost)
}

func (c confined) Items(ctx context.Context, items []int64, executions []string,
	withParams bool) ([]operate.Item, error) {
	found, err := c.of.Items(ctx, items, executions, withParams)
	return slices.DeleteFunc(found, func(i operate.Item) bool { return !c.seen[i.WorkspaceID] }), err
}

// shows reports whether the item is of a workspace seen.
func (c confined) shows(ctx context.Context, item int64) (bool, error) {
	found, err := c.Items(ctx, []int64{item}, nil, false)
	return len(found) > 0, err
}

func (c confined) Failures(ctx context.Context, item int64) ([]operate.Failure, error) {
	if shown, err := c.shows(ctx, item); err != nil || !shown {
		return nil, err
	}
	return c.of.Failures(ctx, item)
}

func (c confined) Ahead(ctx context.Context, item int64) (int64, error) {
	if shown, err := c.shows(ctx, item); err != nil || !shown {
		return 0, err
	}
	return c.of.Ahead(ctx, item)
}

func (c confined) Signals(ctx context.Context, executionID string, states []string,
	atMost int) ([]operate.Signal, error) {
	found, err := c.Items(ctx, nil, []string{executionID}, false)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return c.of.Signals(ctx, executionID, states, atMost)
}

// CompleteErrors suggests nothing, because the failures it looks at are those of all workspaces.
func (c confined) CompleteErrors(context.Context, string, int) ([]string, error) { return nil, nil }

func (c confined) EndedItems(ctx context.Context, workspaces []string) ([]operate.EndedCount, error) {
	return c.of.EndedItems(ctx, c.only(workspaces))
}

func (c confined) WorkspaceActivity(ctx context.Context, id string, back time.Duration) ([]operate.Stretch, error) {
	if len(c.only([]string{id})) == 0 {
		return nil, nil
	}
	return c.of.WorkspaceActivity(ctx, id, back)
}

// KeyLimitsOf leaves out the limit over all workspaces, whose use would show what others run.
func (c confined) KeyLimitsOf(ctx context.Context, workspaceID, key string) ([]operate.KeyLimit, error) {
	if len(c.only([]string{workspaceID})) == 0 {
		return nil, nil
	}
	limits, err := c.of.KeyLimitsOf(ctx, workspaceID, key)
	return slices.DeleteFunc(limits, func(l operate.KeyLimit) bool { return l.WorkspaceID == "" }), err
}

func (c confined) ChangesOf(ctx context.Context, item operate.Item) ([]operate.Administered, error) {
	if shown, err := c.shows(ctx, item.ID); err != nil || !shown {
		return nil, err
	}
	return c.of.ChangesOf(ctx, item)
}

func (c confined) DeadGroups(ctx context.Context, workspaces []string, atMost int) ([]operate.DeadGroup, error) {
	return c.of.DeadGroups(ctx, c.only(workspaces), atMost)
}

func (c confined) DeadOfKind(ctx context.Context, kind string, workspaces []string, after *operate.DeadKey,
	atMost int) ([]int64, error) {
	return c.of.DeadOfKind(ctx, kind, c.only(workspaces), after, atMost)
}

func (c confined) SearchDeadLetters(ctx context.Context, f operate.DeadFilter, newest, atMost int) ([]int64,
	*operate.DeadKey, error) {
	f.Workspaces = c.only(f.Workspaces)
	return c.of.SearchDeadLetters(ctx, f, newest, atMost)
}

func (c confined) WorkspaceDetail(ctx context.Context, id string) (operate.WorkspaceDetail, bool, error) {
	if len(c.only([]string{id})) == 0 {
		return operate.WorkspaceDetail{}, false, nil
	}
	return c.of.WorkspaceDetail(ctx, id)
}

func (c confined) Definitions(ctx context.Context, workspaceID string, atMost int) ([]operate.Definition, error) {
	if len(c.only([]string{workspaceID})) == 0 {
		return nil, nil
	}
	return c.of.Definitions(ctx, workspaceID, atMost)
}

func (c confined) CompleteDefinitions(ctx context.Context, workspaceID, beginning string,
	atMost int) ([]string, error) {
	if len(c.only([]string{workspaceID})) == 0 {
		return nil, nil
	}
	return c.of.CompleteDefinitions(ctx, workspaceID, beginning, atMost)
}

// Plans are the same for all workspaces, and so are Settings.
func (c confined) Plans(ctx context.Context) ([]operate.Plan, error) { return c.of.Plans(ctx) }

func (c confined) Settings(ctx context.Context) (operate.Settings, error) { return c.of.Settings(ctx) }

// Activity is not recorded by workspace.
func (c confined) Activity(context.Context, time.Duration) ([]operate.Minute, error) { return nil, nil }

// Audit returns the changes of workspaces seen. Those of items are read by ChangesOf.
func (c confined) Audit(ctx context.Context, f operate.AuditFilter, atMost int) ([]operate.Administered, error) {
	id, ofWorkspace := strings.CutPrefix(f.Subject, "workspace ")
	if !ofWorkspace || !c.seen[id] {
		return nil, nil
	}
	return c.of.Audit(ctx, f, atMost)
}
