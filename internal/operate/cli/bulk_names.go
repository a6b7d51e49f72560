package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

// bulkNames finds the workspaces and definitions of lines, each once.
type bulkNames struct {
	store                 *operate.Store
	workspace, definition string // for lines that name none
	known                 map[string]bulkWorkspace
}

// bulkWorkspace is a workspace that a line names, or why there is none.
type bulkWorkspace struct {
	operate.WorkspaceName
	definitions []operate.Definition
	err         error
}

// nameError is why a name was not resolved.
type nameError struct {
	error
	database bool // because the database did not answer, so the line may be good
}

func (e nameError) Unwrap() error { return e.error }

// resolve sets an item's workspace and definition. Empty names stand for the command's own.
func (n *bulkNames) resolve(ctx context.Context, workspace, definition string, item *operate.NewItem) error {
	if workspace == "" {
		workspace = n.workspace
	}
	if definition == "" {
		definition = n.definition
	}
	switch {
	case workspace == "":
		return errors.New("workspace is missing: give it in the line, or by --workspace for all")
	case definition == "":
		return errors.New("definition is missing: give it in the line, or as DEFINITION for all")
	}
	found, known := n.known[workspace]
	if !known {
		found = n.find(ctx, workspace)
		n.known[workspace] = found
	}
	if found.err != nil {
		return found.err
	}
	d, err := oneDefinition(found.WorkspaceName, found.definitions, definition)
	if err != nil {
		return fmt.Errorf("definition: %w", err)
	}
	item.WorkspaceID, item.WorkflowDefinitionID = found.ID, d.ID
	return startable(d)
}

func (n *bulkNames) find(ctx context.Context, workspace string) (w bulkWorkspace) {
	w.WorkspaceName, w.err = workspaceOf(ctx, n.store, workspace)
	if w.err == nil {
		w.definitions, w.err = n.store.Definitions(ctx, w.ID, 0)
	}
	if w.err != nil {
		w.err = nameError{fmt.Errorf("workspace: %w", w.err), postgres.IsOfServer(w.err)}
	}
	return w
}
