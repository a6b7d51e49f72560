package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/spelling"
)

// didYouMean returns the end of an error about an unknown name, or "" if no name is likely.
func didYouMean(name string, names []string) string {
	likely := spelling.Likely(name, names)
	if len(likely) == 0 {
		return ""
	}
	return "; did you mean " + quoted(likely, " or ") + "?"
}

func quoted(names []string, between string) string {
	all := make([]string, len(names))
	for n, name := range names {
		all[n] = strconv.Quote(view.Printable(name))
	}
	return cut(strings.Join(all, between))
}

// oneOf returns the only name of those that differ from the given one by case. It is empty if there is none.
func oneOf(name string, same []string) (string, error) {
	switch len(same) {
	case 0:
		return "", nil
	case 1:
		return same[0], nil
	}
	return "", fmt.Errorf("%.80q could be any of %s: write it as one of them is written", name, quoted(same, ", "))
}

// givenWorkspace returns the workspace that the flag --workspace gives by ID or name, or none if it gives none.
func givenWorkspace(ctx context.Context, store *operate.Store, idOrName string) (found operate.WorkspaceName,
	err error) {
	if idOrName != "" {
		found, err = workspaceOf(ctx, store, idOrName)
	}
	if err != nil {
		return found, fmt.Errorf("--workspace: %w", err)
	}
	return found, nil
}

// makesChange is the annotation of the flag --by of changes.
const makesChange = "makes a change"

// shared are the values of flags that mean the same on every command that has them: of the command that runs.
type shared struct {
	output, who string
	limit       int
}

// reads adds the flag for JSON to a command.
func (a *App) reads(command *cobra.Command) *cobra.Command {
	command.Flags().StringVarP(&a.output, "output", "o", "table", "output format: table or json")
	return command
}

// lists adds the flags of a command that prints a list.
func (a *App) lists(command *cobra.Command) *cobra.Command {
	command.Flags().IntVar(&a.limit, "limit", 50, "maximum number of rows, 1 to 10000")
	return a.reads(command)
}

// changes adds the flags of a command that changes something.
func (a *App) changes(command *cobra.Command) *cobra.Command {
	command.Flags().StringVar(&a.who, "by", defaultWho(), "name for the log of changes (default: this user and machine)")
	by := command.Flags().Lookup("by")
	by.DefValue = "" // differs per machine; the usage text describes it
	by.Annotations = map[string][]string{makesChange: nil}
	return a.reads(command)
}

// checkShared checks the flags that mean the same on every command that has them.
func checkShared(flags *pflag.FlagSet) error {
	var faults []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	if output, err := flags.GetString("output"); err == nil {
		refuse(output != "table" && output != "json", "--output is %q: it must be table or json", output)
	}
	if limit, err := flags.GetInt("limit"); err == nil {
		refuse(limit < 1 || limit > 10000, "--limit is %d: it must be a whole number from 1 to 10000", limit)
	}
	if before, err := flags.GetInt64("before"); err == nil {
		refuse(before < 0, "--before is %d: it must be an ID", before)
	}
	if by := flags.Lookup("by"); by != nil && by.Annotations != nil {
		refuse(!operate.ValidWho(by.Value.String()),
			"--by is %.80q: it must have 1 to 200 characters and no control characters", by.Value)
	}
	return errors.Join(faults...)
}

// workspaceOf finds the workspace with this ID or name, whatever its case if none is written like that. It returns an
// error unless exactly one matches.
func workspaceOf(ctx context.Context, store *operate.Store, idOrName string) (none operate.WorkspaceName, err error) {
	if postgres.Clean(idOrName) != strings.TrimSpace(idOrName) || strings.TrimSpace(idOrName) == "" {
		return none, fmt.Errorf("%.80q is not a workspace ID (a UUID) or name", idOrName)
	}
	found, err := store.FindWorkspaces(ctx, idOrName)
	var names operate.Names
	if err == nil && len(found) == 0 {
		names, err = store.Names(ctx, operate.NamedWorkspace, idOrName)
	}
	name, ambiguous := oneOf(idOrName, names.Same)
	if err = errors.Join(err, ambiguous); err == nil && name != "" {
		found, err = store.FindWorkspaces(ctx, name)
	}
	switch {
	case err != nil:
		return none, err
	case len(found) == 0:
		return none, fmt.Errorf("no workspace has the ID or name %.80q: see `pgdispatch workspaces list`%s", idOrName,
			didYouMean(idOrName, names.Near))
	case len(found) > 1:
		ids := make([]string, len(found))
		for n, w := range found {
			ids[n] = w.ID
		}
		return none, fmt.Errorf("%d workspaces are named %.80q: use an ID, one of %s", len(found), idOrName,
			strings.Join(ids, ", "))
	}
	return found[0], nil
}

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
	item.WorkspaceID, item.DefinitionID = found.ID, d.ID
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
