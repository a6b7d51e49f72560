package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

const policyHelp = "\n\nWith --key, --on-conflict says what happens while the last item with the key waits or runs.\n" +
	"skip: insert nothing. replace: if it waits, it takes the new params. debounce: likewise, and it becomes due\n" +
	"--quiet from now, at most --at-most after it was enqueued."

func (a *App) enqueueCommand() *cobra.Command {
	var workspace string
	var many bulkFlags
	command := &cobra.Command{
		Use: "enqueue DEFINITION --workspace WORKSPACE", Short: "Enqueue one item, for example to test a workflow",
		Args: func(command *cobra.Command, args []string) error {
			if many.from != "" {
				return cobra.MaximumNArgs(1)(command, args)
			}
			return cobra.ExactArgs(1)(command, args)
		},
		Long: "Enqueue one item of a workflow definition, by name or ID, like an application's insert. If an item of the\n" +
			"workspace has the idempotency key already, nothing is inserted and that item is shown." + policyHelp + bulkHelp,
		Example: "  pgdispatch enqueue order --workspace Acme --params '{\"orderId\": 42}'\n" +
			"  pgdispatch enqueue order --workspace Acme --params - --run-at 10m < params.json" + bulkExample,
		ValidArgsFunction: arguments(a.definitionNames()),
	}
	command.RunE = a.withStore(func(ctx context.Context, store *operate.Store, args []string) error {
		if err := many.check(command.Flags()); err != nil {
			return err
		}
		if many.from != "" {
			names := bulkNames{store: store, workspace: workspace, definition: strings.Join(args, ""),
				known: map[string]bulkWorkspace{}}
			return a.enqueueMany(ctx, store, many, names, command.InOrStdin())
		}
		item, err := itemOfFlags(command)
		if err != nil {
			return err
		}
		workspaceID, definition, err := definitionOf(ctx, store, workspace, args[0])
		if err == nil {
			err = startable(definition)
		}
		if err != nil {
			return err
		}
		item.WorkspaceID, item.DefinitionID = workspaceID, definition.ID
		made, err := store.Enqueue(ctx, []operate.NewItem{item}, a.who)
		if err == nil && len(made) == 0 {
			err = errors.New("a trigger of your own on pgdispatch.workflow_execution_queue suppressed the item")
		}
		if err != nil {
			return err
		}
		return a.printEnqueued(item, made[0], definition)
	})
	flags := command.Flags()
	flags.StringVar(&workspace, "workspace", "", "workspace, by ID or name (required)")
	addItem(flags)
	many.add(flags)
	return a.changes(command)
}

// addItem adds the flags of one item, which are named after the fields of a line.
func addItem(flags *pflag.FlagSet) {
	flags.String("params", "{}",
		"input as a JSON object, or an array where the definition takes one; - reads standard input")
	flags.Int("priority", 0, "priority from -100 to 100; higher runs first")
	flags.String("run-at", "", "earliest start: a time (2026-08-01T10:00:00Z), a UTC day, or a delay (10m, 2h, 1d)")
	flags.String("start-before", "", "cancel the item if it has not been claimed by this time, or after this delay")
	flags.String("idempotency-key", "", "enqueue only if no item of the workspace has this key")
	flags.String("limit-key", "", "limit key of the item: see pgdispatch limits")
	flags.String("workflow-id", "", "ID of its workflow or activity (default: execution-<execution ID>)")
	flags.String("key", "", "key of the workspace, for --on-conflict")
	flags.String("on-conflict", "", "for --key: skip, replace or debounce (default: skip)")
	flags.Duration("quiet", 0, "for debounce: how long no other call must come, such as 5s")
	flags.Duration("at-most", 0, "for debounce: longest wait since the first call, such as 1m")
}

// itemOfFlags returns the item that the flags give.
func itemOfFlags(command *cobra.Command) (operate.NewItem, error) {
	line := fileLine{fields: map[string]string{}}
	for _, field := range lineFields[2:] {
		flag := command.Flags().Lookup(flagOf(field))
		if flag == nil || !flag.Changed || flag.Value.String() == "" && field != "params" {
			continue
		}
		line.fields[field] = flag.Value.String()
		if err := clean(flag.Name, flag.Value.String()); err != nil && field != "params" {
			return operate.NewItem{}, err
		}
	}
	if line.fields["params"] == "-" {
		text, err := io.ReadAll(io.LimitReader(command.InOrStdin(), 2*operate.MaxParams))
		if err != nil {
			return operate.NewItem{}, fmt.Errorf("read --params from standard input: %w", err)
		}
		line.fields["params"] = string(text)
	}
	return line.item()
}

// definitionOf finds a definition by ID or name, and the ID of its workspace, which the flag --workspace gives.
func definitionOf(ctx context.Context, store *operate.Store, workspace, idOrName string) (workspaceID string,
	d operate.Definition, err error) {
	if workspace == "" {
		return "", d, errors.New("--workspace is required: give a workspace ID or name; see `pgdispatch workspaces list`")
	}
	found, err := givenWorkspace(ctx, store, workspace)
	if err != nil {
		return "", d, err
	}
	definitions, err := store.Definitions(ctx, found.ID, 0)
	if err != nil {
		return "", d, err
	}
	d, err = oneDefinition(found, definitions, idOrName)
	return found.ID, d, err
}

// startable refuses a definition without a version that needs one.
func startable(d operate.Definition) error {
	if d.Startable() {
		return nil
	}
	return fmt.Errorf("definition %.80q has no version and cannot be started: `pgdispatch definitions version` adds one",
		d.Name)
}

// oneDefinition returns the definition of a workspace with this ID or name, whatever its case if none is written like
// that.
func oneDefinition(w operate.WorkspaceName, definitions []operate.Definition,
	idOrName string) (operate.Definition, error) {
	names, shown, same := make([]string, len(definitions)), make([]string, len(definitions)), []string{}
	for n, d := range definitions {
		if d.Name == idOrName || d.ID == strings.ToLower(idOrName) {
			return d, nil
		}
		if strings.EqualFold(d.Name, idOrName) {
			same = append(same, d.Name)
		}
		names[n], shown[n] = d.Name, view.Printable(d.Name)
	}
	name, err := oneOf(idOrName, same)
	switch {
	case err != nil:
		return operate.Definition{}, err
	case name != "":
		return oneDefinition(w, definitions, name)
	case len(definitions) == 0:
		return operate.Definition{}, fmt.Errorf("workspace %q has no workflow definition: `pgdispatch definitions create` "+
			"adds one", w.Name)
	}
	return operate.Definition{}, fmt.Errorf("workspace %q has no workflow definition %.80q; its definitions are %s%s",
		w.Name, idOrName, cut(strings.Join(shown, ", ")), didYouMean(idOrName, names))
}

func (a *App) printEnqueued(item operate.NewItem, made operate.Enqueued, definition operate.Definition) error {
	if item.Keyed() {
		return a.say(made, "%s item %d: execution %s. Follow it with `pgdispatch items show %d`", made.Action,
			made.ID, made.ExecutionID, made.ID)
	}
	shown := struct {
		operate.Enqueued
		Inserted bool `json:"inserted"`
	}{operate.Enqueued{ID: made.ID, ExecutionID: made.ExecutionID}, made.Action == "inserted"}
	if !shown.Inserted {
		return a.say(shown, "item %d already has this idempotency key; nothing was enqueued. See `pgdispatch items "+
			"show %d`", made.ID, made.ID)
	}
	return a.say(shown, "enqueued item %d: %s %s on task queue %s. Follow it with `pgdispatch items show %d`",
		made.ID, definition.Kind, cmp.Or(item.WorkflowID, temporal.WorkflowID(made.ExecutionID)),
		view.Printable(definition.TaskQueue), made.ID)
}
