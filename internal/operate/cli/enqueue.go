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

// maxParams is the size limit of params that the insert accepts, in bytes of Postgres's text form.
const maxParams = 1966080

func (a *App) enqueueCommand() *cobra.Command {
	var workspace, params, runAt, key, output, who string
	var priority int
	command := &cobra.Command{
		Use: "enqueue DEFINITION --workspace WORKSPACE", Short: "Enqueue one item, for example to test a workflow", Args: cobra.ExactArgs(1),
		Long: "Enqueue one item of a workflow definition, by name or ID, like an application's insert. If the workspace already has an\n" +
			"item with the idempotency key, nothing is inserted and that item is shown.",
		Example: "  pgdispatch enqueue order --workspace Acme --params '{\"orderId\": 42}'\n" +
			"  pgdispatch enqueue order --workspace Acme --params - --run-at 10m < params.json",
	}
	command.RunE = a.withStore(func(ctx context.Context, store *operate.Store, args []string) error {
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
			return errors.New(strings.Replace(err.Error(), "an age such", "a delay such", 1))
		}
		item.RunAt, item.RunIn = moment.At, moment.Ago
		if workspace == "" {
			return errors.New("--workspace is required: give a workspace ID or name; see `pgdispatch workspaces list`")
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
	flags.StringVar(&workspace, "workspace", "", "workspace, by ID or name (required)")
	flags.StringVar(&params, "params", "{}", "workflow input as a JSON object; - reads standard input")
	flags.IntVar(&priority, "priority", 0, "priority from -100 to 100; higher runs first")
	flags.StringVar(&runAt, "run-at", "", "earliest start: a time (2026-08-01T10:00:00Z), a UTC day, or a delay (10m, 2h, 1d)")
	flags.StringVar(&key, "idempotency-key", "", "enqueue only if no item of the workspace has this key")
	addWho(flags, &who)
	addOutput(flags, &output)
	config.AddFlags(flags, config.DatabaseOptions)
	a.complete(command, map[string]completion{"workspace": a.workspaceNames})
	return command
}

// readParams returns the value of --params, or standard input if it is "-". It must be a JSON object.
func readParams(params string, stdin io.Reader) (string, error) {
	if params == "-" {
		text, err := io.ReadAll(io.LimitReader(stdin, 2*maxParams))
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
	names := []string{}
	for _, d := range definitions {
		names = append(names, view.Printable(d.Name))
		if d.Name != definition && d.ID != strings.ToLower(definition) {
			continue
		}
		if d.Version == nil {
			return d, fmt.Errorf("definition %q has no version and cannot be started: insert one into pgdispatch.workflow_definition_versions", d.Name)
		}
		item.WorkspaceID, item.WorkflowDefinitionID = found.ID, d.ID
		return d, nil
	}
	if len(names) == 0 {
		return operate.Definition{}, fmt.Errorf("workspace %q has no workflow definition: insert one into pgdispatch.workflow_definitions", found.Name)
	}
	return operate.Definition{}, fmt.Errorf("workspace %q has no workflow definition %.80q; its definitions are %s", found.Name, definition, cut(strings.Join(names, ", ")))
}

func (a *App) printEnqueued(made operate.Enqueued, definition operate.Definition, output string) error {
	if output == "json" {
		return a.printJSON(made)
	}
	if !made.Inserted {
		_, err := fmt.Fprintf(a.Stdout, "item %d already has this idempotency key; nothing was enqueued. See `pgdispatch items show %d`\n", made.ID, made.ID)
		return err
	}
	_, err := fmt.Fprintf(a.Stdout, "enqueued item %d: workflow execution-%s on task queue %s. Follow it with `pgdispatch items show %d`\n",
		made.ID, made.ExecutionID, view.Printable(definition.TaskQueue), made.ID)
	return err
}
