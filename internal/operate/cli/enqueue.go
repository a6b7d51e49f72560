package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/spf13/cobra"
)

func (a *App) enqueueCommand() *cobra.Command {
	var workspace, params, runAt, key, output, who string
	var priority int
	var many bulkFlags
	command := &cobra.Command{
		Use: "enqueue DEFINITION --workspace WORKSPACE", Short: "Enqueue one item, to try a workflow out",
		Args: many.args,
		Long: "Enqueue one item of a workflow definition, by name or ID, as an application's insert would. With an idempotency key that\n" +
			"an item of the workspace has already, nothing is inserted, and that item is shown." + bulkHelp,
		Example: "  pgdispatch enqueue order --workspace Acme --params '{\"orderId\": 42}'\n" +
			"  pgdispatch enqueue order --workspace Acme --params - --run-at 10m < params.json" + bulkExample,
	}
	command.RunE = a.withStore(func(ctx context.Context, store *operate.Store, args []string) error {
		if err := many.check(command.Flags()); err != nil {
			return err
		}
		if many.from != "" {
			names := bulkNames{store: store, workspace: workspace, definition: strings.Join(args, "")}
			return a.enqueueMany(ctx, store, many, names, command.InOrStdin(), who, output)
		}
		item := operate.NewItem{Priority: priority, IdempotencyKey: key}
		var err error
		if item.Params, err = readParams(params, command.InOrStdin()); err != nil {
			return err
		}
		if err := errors.Join(checkOutput(output), checkWho(who), checkItem(item), clean("idempotency-key", key)); err != nil {
			return err
		}
		moment, err := parseMoment("run-at", runAt)
		if err != nil {
			return errors.New(strings.Replace(err.Error(), "how long ago", "in how long", 1))
		}
		item.RunAt, item.RunIn = moment.At, moment.Ago
		if workspace == "" {
			return errors.New("--workspace is missing: give the ID or name of a workspace; `pgdispatch workspaces list` shows them")
		}
		definition, err := definitionOf(ctx, store, workspace, args[0], &item)
		if err != nil {
			return err
		}
		made, err := store.Enqueue(ctx, item, who)
		if err != nil {
			return err
		}
		return a.printEnqueued(made, definition, output)
	})
	flags := command.Flags()
	flags.StringVar(&workspace, "workspace", "", "the workspace, by ID or name; needed")
	flags.StringVar(&params, "params", "{}", "a JSON object for the workflow; -: read it from standard input")
	flags.IntVar(&priority, "priority", 0, "-100 to 100, higher goes first")
	flags.StringVar(&runAt, "run-at", "", "not before: a time (2026-08-01T10:00:00Z), a day in UTC, or in so long (10m, 2h, 1d)")
	flags.StringVar(&key, "idempotency-key", "", "enqueue it only where no item of the workspace has this key")
	many.add(flags)
	addWho(flags, &who)
	addOutput(flags, &output)
	config.AddFlags(flags, config.DatabaseOptions)
	a.complete(command, map[string]completion{"workspace": a.workspaceNames})
	return command
}

// readParams returns the value of --params, or standard input if it is "-". It must be a JSON object.
func readParams(params string, stdin io.Reader) (string, error) {
	if params == "-" {
		text, err := io.ReadAll(io.LimitReader(stdin, 2*operate.MaxParams))
		if err != nil {
			return "", fmt.Errorf("read --params from standard input: %w", err)
		}
		params = string(text)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(params), &object); err != nil || object == nil {
		return "", errors.New(`--params must be a JSON object, such as '{"orderId": 42}'`)
	}
	return params, nil
}

func checkItem(item operate.NewItem) error {
	switch {
	case item.Priority < -100 || item.Priority > 100:
		return fmt.Errorf("--priority is %d: it must be a whole number from -100 to 100", item.Priority)
	case len(item.IdempotencyKey) > 200:
		return errors.New("--idempotency-key must have at most 200 characters")
	}
	return nil
}

// definitionOf finds a workspace's definition by ID or name, and sets both IDs in item.
func definitionOf(ctx context.Context, store *operate.Store, workspace, definition string, item *operate.NewItem) (operate.Definition, error) {
	found, err := workspaceOf(ctx, store, workspace)
	if err != nil {
		return operate.Definition{}, fmt.Errorf("--workspace: %w", err)
	}
	definitions, err := store.Definitions(ctx, found.ID)
	if err != nil {
		return operate.Definition{}, err
	}
	d, err := definitionNamed(definitions, definition)
	if err != nil {
		return operate.Definition{}, err
	}
	if d == nil {
		return operate.Definition{}, noDefinition(found.Name, definition, definitions)
	}
	if d.Version == nil {
		return *d, fmt.Errorf("definition %q has no version, so it cannot be started: insert one into pgdispatch.workflow_definition_versions", d.Name)
	}
	item.WorkspaceID, item.WorkflowDefinitionID = found.ID, d.ID
	return *d, nil
}

func noDefinition(workspace, definition string, definitions []operate.Definition) error {
	if len(definitions) == 0 {
		return fmt.Errorf("workspace %q has no workflow definition: insert one into pgdispatch.workflow_definitions", workspace)
	}
	names, shown := make([]string, len(definitions)), make([]string, len(definitions))
	for n, d := range definitions {
		names[n], shown[n] = d.Name, view.Printable(d.Name)
	}
	return fmt.Errorf("workspace %q has no workflow definition %.80q: it has %s%s",
		workspace, definition, cut(strings.Join(shown, ", ")), didYouMean(definition, names))
}

func (a *App) printEnqueued(made operate.Enqueued, definition operate.Definition, output string) error {
	if output == "json" {
		return a.printJSON(made)
	}
	if !made.Inserted {
		_, err := fmt.Fprintf(a.Stdout, "item %d has this idempotency key already: nothing was enqueued; `pgdispatch items show %d` shows it\n", made.ID, made.ID)
		return err
	}
	_, err := fmt.Fprintf(a.Stdout, "enqueued item %d: workflow execution-%s on task queue %s; `pgdispatch items show %d` tells what becomes of it\n",
		made.ID, made.ExecutionID, view.Printable(definition.TaskQueue), made.ID)
	return err
}
