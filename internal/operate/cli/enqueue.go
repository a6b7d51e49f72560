package cli

import (
	"cmp"
	"context"
	"encoding/json"
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

func (a *App) enqueueCommand() *cobra.Command {
	var workspace, output, who string
	one, many, policy := itemFlags{}, bulkFlags{}, keyFlags{}
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
		ValidArgsFunction: arguments(a.definitionNames),
	}
	command.RunE = a.withStore(func(ctx context.Context, store *operate.Store, args []string) error {
		if err := errors.Join(many.check(command.Flags()), policy.check(command.Flags())); err != nil {
			return err
		}
		if many.from != "" {
			names := bulkNames{store: store, workspace: workspace, definition: strings.Join(args, ""),
				known: map[string]bulkWorkspace{}}
			return a.enqueueMany(ctx, store, many, names, command.InOrStdin(), who, output)
		}
		item, err := one.read(command.InOrStdin())
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
		item.WorkspaceID, item.WorkflowDefinitionID = workspaceID, definition.ID
		if item.KeyPolicy = policy.KeyPolicy; item.Key != "" {
			return a.enqueueKeyed(ctx, store, item, who, output)
		}
		made, err := store.Enqueue(ctx, item, who)
		if err != nil {
			return err
		}
		return a.printEnqueued(made, cmp.Or(item.WorkflowID, temporal.WorkflowID(made.ExecutionID)), definition, output)
	})
	flags := command.Flags()
	flags.StringVar(&workspace, "workspace", "", "workspace, by ID or name (required)")
	one.add(flags)
	policy.add(flags)
	many.add(flags)
	addWho(flags, &who)
	addOutput(flags, &output)
	return command
}

// itemFlags are the flags of `enqueue` for one item.
type itemFlags struct {
	operate.NewItem
	runAt, startBefore string
}

func (f *itemFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.Params, "params", "{}",
		"input as a JSON object, or an array where the definition takes one; - reads standard input")
	flags.IntVar(&f.Priority, "priority", 0, "priority from -100 to 100; higher runs first")
	flags.StringVar(&f.runAt, "run-at", "",
		"earliest start: a time (2026-08-01T10:00:00Z), a UTC day, or a delay (10m, 2h, 1d)")
	flags.StringVar(&f.startBefore, "start-before", "",
		"cancel the item if it has not been claimed by this time, or after this delay")
	flags.StringVar(&f.IdempotencyKey, "idempotency-key", "", "enqueue only if no item of the workspace has this key")
	flags.StringVar(&f.LimitKey, "limit-key", "", "limit key of the item: see pgdispatch limits")
	flags.StringVar(&f.WorkflowID, "workflow-id", "", "ID of its workflow or activity (default: execution-<execution ID>)")
}

// read returns what the flags say of an item, and checks it.
func (f itemFlags) read(stdin io.Reader) (item operate.NewItem, err error) {
	item = f.NewItem
	if item.Params, err = readParams(f.Params, stdin); err != nil {
		return item, err
	}
	if err := errors.Join(clean("idempotency-key", item.IdempotencyKey),
		clean("limit-key", item.LimitKey), clean("workflow-id", item.WorkflowID)); err != nil {
		return item, err
	}
	start, err := parseMoment("run-at", f.runAt)
	if err == nil {
		item.StartBefore, err = parseMoment("start-before", f.startBefore)
	}
	if err != nil {
		return item, errors.New(strings.Replace(err.Error(), "an age such", "a delay such", 1))
	}
	item.RunAt, item.RunIn = start.At, start.Ago
	return item, nil
}

// readParams returns the value of --params, or standard input if it is "-". Whether it must be an object or an array
// is up to the definition, so Postgres checks that.
func readParams(params string, stdin io.Reader) (string, error) {
	if params == "-" {
		text, err := io.ReadAll(io.LimitReader(stdin, 2*operate.MaxParams))
		if err != nil {
			return "", fmt.Errorf("read --params from standard input: %w", err)
		}
		params = string(text)
	}
	if text := strings.TrimSpace(params); !json.Valid([]byte(text)) || text[0] != '{' && text[0] != '[' {
		return "", errors.New(`--params must be a JSON object or array, such as '{"orderId": 42}'`)
	}
	return params, nil
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

func (a *App) printEnqueued(made operate.Enqueued, workflowID string, definition operate.Definition,
	output string) error {
	if !made.Inserted {
		return a.say(output, made, "item %d already has this idempotency key; nothing was enqueued. See `pgdispatch items "+
			"show %d`", made.ID, made.ID)
	}
	return a.say(output, made, "enqueued item %d: %s %s on task queue %s. Follow it with `pgdispatch items show %d`",
		made.ID, definition.Kind, workflowID, view.Printable(definition.TaskQueue), made.ID)
}
