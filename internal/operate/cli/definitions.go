package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

// maxGraph is the largest graph file that is read, in bytes.
const maxGraph = 16 << 20

func (a *App) definitionsCommand() *cobra.Command {
	group := &cobra.Command{
		Use:   "definitions",
		Short: "List and add workflow definitions: what a workspace can start",
		Long: "List and add workflow definitions: what a workspace can start.\n" +
			"A graph is a JSON object, such as {\"nodes\": [{\"id\": \"a\"}, {\"id\": \"b\"}], \"edges\": " +
			"[{\"from\": \"a\", \"to\": \"b\"}]}.\n" +
			"Its node IDs are part of the workflow's input; what else is in it is for your own worker.",
	}
	group.AddCommand(a.definitionsListCommand(), a.definitionsCreateCommand(),
		a.definitionsVersionCommand())
	return group
}

func (a *App) definitionsListCommand() *cobra.Command {
	var workspace, name, after string
	command := &cobra.Command{
		Use: "list", Short: "List workflow definitions by workspace and name", Args: cobra.NoArgs,
		RunE: a.withStore(func(ctx context.Context, store *operate.Store, _ []string) error {
			if err := clean("name", name); err != nil {
				return err
			}
			if after != "" && !operate.IsUUID(after) {
				return fmt.Errorf("--after is %.80q: it must be a definition's ID", after)
			}
			only, err := givenWorkspace(ctx, store, workspace)
			if err != nil {
				return err
			}
			definitions, err := store.ListDefinitions(ctx, only.ID, name, after, a.limit)
			if err != nil {
				return err
			}
			return list[operate.WorkspaceDefinition]{
				rows:  definitions,
				none:  "no workflow definitions match; `pgdispatch definitions create` adds one",
				more:  func(last operate.WorkspaceDefinition) string { return "continue with --after " + last.ID },
				heads: "WORKSPACE\t" + definitionHeads,
				cells: func(d operate.WorkspaceDefinition) string {
					return view.Printable(d.Workspace) + "\t" + definitionCells(d.Definition, "-")
				},
			}.print(a)
		}),
	}
	flags := command.Flags()
	flags.StringVar(&workspace, "workspace", "", "only this workspace, by ID or name")
	flags.StringVar(&name, "name", "", "only names that contain this text, ignoring case")
	flags.StringVar(&after, "after", "", "only rows after this one, for the next page")
	return a.lists(command)
}

const definitionHeads = "DEFINITION\tID\tKIND\tTYPE\tNAMESPACE\tTASK QUEUE\tVERSION\tMAX ATTEMPTS\tTIMEOUT"

// definitionCells returns the columns of definitionHeads. unversioned stands for a missing version.
func definitionCells(d operate.Definition, unversioned string) string {
	version, timeout := unversioned, "-"
	if d.Version != nil {
		version = strconv.Itoa(*d.Version)
	}
	if d.ExecutionTimeout != nil {
		timeout = view.Shortly(*d.ExecutionTimeout)
	}
	return strings.Join([]string{view.Printable(d.Name), d.ID, d.Kind.String(), view.Printable(d.WorkflowType),
		view.Printable(cmp.Or(d.Namespace, "-")), view.Printable(d.TaskQueue), version, strconv.Itoa(d.MaxAttempts), timeout},
		"\t")
}

func (a *App) definitionsCreateCommand() *cobra.Command {
	var workspace, graph, timeout string
	var made operate.NewDefinition
	command := &cobra.Command{
		Use:   "create --workspace WORKSPACE --name NAME --type TYPE --task-queue QUEUE",
		Short: "Add a workflow definition with its first version",
		Args:  cobra.NoArgs,
		Long:  "Add a workflow definition with its first version. " + needsOwner,
		Example: "  pgdispatch definitions create --workspace Acme --name order --type OrderWorkflow --task-queue orders " +
			"--graph graph.json\n" + activityExample,
	}
	command.RunE = a.withStore(func(ctx context.Context, store *operate.Store, _ []string) error {
		if err := needed(map[string]string{"workspace": workspace,
			"name": made.Name, "type": made.WorkflowType, "task-queue": made.TaskQueue}); err != nil {
			return err
		}
		if timeout != "" {
			d, err := parseDays(timeout)
			if err != nil {
				return fmt.Errorf("--execution-timeout is %.80q: it must be a time such as 30m, 2h or 7d", timeout)
			}
			made.ExecutionTimeout = &d
		}
		var err error
		if made.Graph, err = readGraph(graph, command.InOrStdin()); err != nil {
			return err
		}
		found, err := givenWorkspace(ctx, store, workspace)
		if err != nil {
			return err
		}
		made.WorkspaceID = found.ID
		id, err := store.CreateDefinition(ctx, made, a.who)
		if err != nil {
			return explainOwner(err)
		}
		return a.say(map[string]any{"id": id, "version": 1},
			"created definition %s with the ID %s and version 1; `pgdispatch enqueue` starts it",
			view.Printable(made.Name), id)
	})
	flags := command.Flags()
	flags.StringVar(&workspace, "workspace", "", "workspace, by ID or name (required)")
	flags.StringVar(&made.Name, "name", "", "name, unique in the workspace (required)")
	flags.StringVar(&made.WorkflowType, "type", "", "workflow or activity type, as the worker registers it (required)")
	flags.StringVar(&made.TaskQueue, "task-queue", "", "task queue that the worker polls (required)")
	flags.StringVar(&made.Namespace, "namespace", "", "Temporal namespace (default: that of the replicas)")
	flags.IntVar(&made.MaxAttempts, "max-attempts", 3,
		"how often an item may fail before it is a dead letter, 1 to 100")
	flags.StringVar(&timeout, "execution-timeout", "",
		"how long it may run with its retries, such as 30m, 2h or 7d (default: no limit; an activity needs one)")
	addItems(flags, &made)
	addGraph(command, &graph, "default: no nodes")
	return a.changes(command)
}

func (a *App) definitionsVersionCommand() *cobra.Command {
	var workspace, graph string
	command := &cobra.Command{
		Use:   "version DEFINITION --workspace WORKSPACE --graph FILE",
		Short: "Add a version of a workflow definition; later items take it",
		Args:  cobra.ExactArgs(1),
		Long: "Add a version of a workflow definition, by name or ID, for items that have not been claimed. " +
			needsOwner,
		Example:           "  pgdispatch definitions version order --workspace Acme --graph graph.json",
		ValidArgsFunction: arguments(a.definitionNames()),
	}
	command.RunE = a.withStore(func(ctx context.Context, store *operate.Store, args []string) error {
		if err := needed(map[string]string{"workspace": workspace,
			"graph": graph}); err != nil {
			return err
		}
		text, err := readGraph(graph, command.InOrStdin())
		if err != nil {
			return err
		}
		_, d, err := definitionOf(ctx, store, workspace, args[0])
		if err != nil {
			return err
		}
		version, err := store.AddVersion(ctx, d.ID, text, a.who)
		if err != nil {
			return explainOwner(err)
		}
		return a.say(map[string]any{"id": d.ID, "version": version},
			"definition %s has version %d now: items that were not claimed before take it", view.Printable(d.Name),
			version)
	})
	flags := command.Flags()
	flags.StringVar(&workspace, "workspace", "", "workspace, by ID or name (required)")
	addGraph(command, &graph, "required")
	return a.changes(command)
}

const activityExample = "  pgdispatch definitions create --workspace Acme --name mail --kind activity " +
	"--type SendMail --task-queue mails --execution-timeout 10m"

// addItems adds the flags that say what holds for each item of a definition.
func addItems(flags *pflag.FlagSet, made *operate.NewDefinition) {
	flags.StringVar((*string)(&made.Kind), "kind", "workflow",
		"what an item starts: workflow, or activity for a standalone activity")
	flags.StringVar((*string)(&made.Input), "input", "envelope",
		"what it is given: envelope, params, args or payloads; see docs/enqueue.md")
	flags.StringVar(&made.LimitKey, "limit-key", "", "limit key of items that have none (default: none)")
	flags.StringVar((*string)(&made.WorkflowIDPolicy), "workflow-id-policy", "reject",
		"if Temporal has another run under an item's workflow ID: reject, reuse or use_existing")
	flags.StringVar(&made.LimitKeyParam, "limit-key-param", "",
		"field of params whose value is the limit key of items that have none")
}

func addGraph(command *cobra.Command, graph *string, otherwise string) {
	command.Flags().StringVar(graph, "graph", "", "JSON file with the graph; -: standard input ("+otherwise+")")
}

// readGraph reads the JSON in a file, or in standard input if path is "-". Without a path the graph is empty. Postgres
// checks the rest.
func readGraph(path string, stdin io.Reader) (json.RawMessage, error) {
	if path == "" {
		return operate.EmptyGraph, nil
	}
	from := stdin
	if path != "-" {
		file, err := os.Open(path) //nolint:gosec // the user chooses the path
		if err != nil {
			return nil, fmt.Errorf("--graph: %w", err)
		}
		defer func() { _ = file.Close() }()
		from = file
	}
	text, err := io.ReadAll(io.LimitReader(from, maxGraph+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("--graph is %.200q: %w", path, err)
	case len(text) > maxGraph:
		return nil, fmt.Errorf("--graph is %.200q: it has more than %d bytes", path, maxGraph)
	}
	if err := operate.CheckJSON(text); err != nil {
		return nil, fmt.Errorf("--graph is %.200q: %w", path, err)
	}
	return text, nil
}
