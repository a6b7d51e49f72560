package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

func (a *App) workspacesCommand() *cobra.Command {
	group := &cobra.Command{
		Use:   "workspaces",
		Short: "List, show, limit and pause workspaces at run time",
		Long: "List, show, limit and pause workspaces. A change applies from the next claim; running workflows continue.\n" +
			"A WORKSPACE is an ID or a unique name.",
	}
	group.AddCommand(
		a.workspacesListCommand(), a.workspacesShowCommand(), a.workspacesCreateCommand(),
		a.workspaceChangeCommand("set-plan", "PLAN", "Set a workspace's plan", planPatch),
		a.workspaceChangeCommand("set-limit", "{N|plan}",
			"Set the maximum number of concurrent workflows; plan: use the plan's limit", parsed(operate.LimitPatch)),
		a.workspaceChangeCommand("set-burst", "{N|plan}",
			"Set how many workflows may run while no other workspace needs the workers; plan: use the plan's burst limit",
			parsed(operate.BurstPatch)),
		a.workspaceChangeCommand("set-rate", "{N|off}", "Set the maximum number of starts per second; off: no limit",
			parsed(operate.RatePatch)),
		a.workspaceChangeCommand("pause", "", "Pause a workspace: start no more items; running workflows continue",
			pausePatch(true)),
		a.workspaceChangeCommand("resume", "", "Resume a paused workspace", pausePatch(false)),
	)
	return group
}

func (a *App) workspacesListCommand() *cobra.Command {
	var name, after string
	command := &cobra.Command{
		Use: "list", Short: "List workspaces by name", Args: cobra.NoArgs,
		RunE: a.withStore(func(ctx context.Context, store *operate.Store, _ []string) error {
			if err := clean("name", name); err != nil {
				return err
			}
			if after != "" {
				last, err := workspaceOf(ctx, store, after)
				if err != nil {
					return fmt.Errorf("--after: %w", err)
				}
				after = last.ID
			}
			workspaces, err := store.Workspaces(ctx, name, after, a.limit)
			if err != nil {
				return err
			}
			return list[operate.Workspace]{
				rows:  workspaces,
				none:  "no workspaces match; create one by inserting into pgdispatch.workspaces",
				more:  func(last operate.Workspace) string { return "continue with --after " + last.ID },
				heads: "WORKSPACE\tID\tPLAN\tRUNNING/LIMIT\tRATE\tWAITING\tOLDEST WAITING\tSCHEDULED\tUNANSWERED\tPAUSED",
				cells: func(w operate.Workspace) string {
					return fmt.Sprintf("%s\t%s\t%s\t%d/%s\t%s\t%d\t%s\t%d\t%s\t%s", view.Printable(w.Name), w.ID, w.Plan, w.Active(),
						view.Slots(w.Limit, w.Burst), rateOf(w), w.Waiting, oldestOf(w), w.Scheduled,
						view.InDoubt(w.Unanswered, w.OldestUnanswered, w.Uncertain), yesNo(w.Paused))
				},
			}.print(a)
		}),
	}
	command.Flags().StringVar(&name, "name", "", "only names that contain this text, ignoring case")
	command.Flags().StringVar(&after, "after", "", "only rows after this one, for the next page")
	return a.lists(command)
}

func (a *App) workspacesShowCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "show WORKSPACE", Short: "Show a workspace and its workflow definitions", Args: cobra.ExactArgs(1),
		ValidArgsFunction: arguments(a.workspaceNames()),
		RunE: a.withStore(func(ctx context.Context, store *operate.Store, args []string) error {
			w, definitions, err := readWorkspace(ctx, store, args[0])
			if err != nil {
				return err
			}
			return a.show(struct {
				operate.Workspace
				Definitions []operate.Definition `json:"workflow_definitions"`
			}{w, definitions}, func() error { return a.printWorkspace(w, definitions) })
		}),
	}
	return a.reads(command)
}

func readWorkspace(ctx context.Context, store *operate.Store,
	idOrName string) (operate.Workspace, []operate.Definition, error) {
	found, err := workspaceOf(ctx, store, idOrName)
	if err != nil {
		return operate.Workspace{}, nil, err
	}
	w, there, err := store.Workspace(ctx, found.ID)
	if err == nil && !there {
		err = fmt.Errorf("workspace %s was deleted in the meantime", found.ID)
	}
	if err != nil {
		return operate.Workspace{}, nil, err
	}
	definitions, err := store.Definitions(ctx, found.ID, 0)
	return w, definitions, err
}

// makePatch parses a command's value, which is empty if the command takes none.
type makePatch func(ctx context.Context, store *operate.Store, value string) (operate.Patch, error)

func (a *App) workspaceChangeCommand(verb, value, short string, parse makePatch) *cobra.Command {
	args := cobra.ExactArgs(1)
	if value != "" {
		args = cobra.ExactArgs(2)
	}
	command := &cobra.Command{
		Use: strings.TrimSpace(verb + " WORKSPACE " + value), Short: short, Args: args,
		ValidArgsFunction: arguments(a.workspaceNames(), a.changeValues(value)),
		RunE: a.withStore(func(ctx context.Context, store *operate.Store, args []string) error {
			patch, err := parse(ctx, store, strings.Join(args[1:], ""))
			if err != nil {
				return err
			}
			workspace, err := workspaceOf(ctx, store, args[0])
			if err != nil {
				return err
			}
			changed, err := store.ChangeWorkspace(ctx, workspace.ID, patch, "workspaces "+verb, a.who)
			if err != nil {
				return err
			}
			return a.printChange(workspace, changed)
		}),
	}
	return a.changes(command)
}

// changeValues suggests what a change takes, given how its usage names it.
func (a *App) changeValues(value string) completion {
	switch value {
	case "PLAN":
		return a.planNames()
	case "{N|plan}":
		return fixed("plan")
	case "{N|off}":
		return fixed("off")
	}
	return cobra.NoFileCompletions
}

func planPatch(ctx context.Context, store *operate.Store, value string) (operate.Patch, error) {
	plans, err := store.Plans(ctx)
	if err != nil {
		return nil, err
	}
	return operate.PlanPatch(plans, value)
}

// parsed is a makePatch that only parses.
func parsed(parse func(string) (operate.Patch, error)) makePatch {
	return func(_ context.Context, _ *operate.Store, value string) (operate.Patch, error) {
		return parse(value)
	}
}

func pausePatch(paused bool) makePatch {
	return func(context.Context, *operate.Store, string) (operate.Patch, error) {
		return operate.Patch{"paused": paused}, nil
	}
}

func (a *App) printChange(workspace operate.WorkspaceName, changed operate.Change) error {
	if a.output == "json" {
		return a.printJSON(struct {
			ID      string         `json:"id"`
			Changed operate.Change `json:"changed"`
		}{workspace.ID, changed})
	}
	if len(changed) == 0 {
		_, err := fmt.Fprintf(a.Stdout, "%s already has this value; nothing was changed\n", view.Printable(workspace.Name))
		return err
	}
	columns := []string{}
	for column := range changed {
		columns = append(columns, column)
	}
	slices.Sort(columns)
	for _, column := range columns {
		fmt.Fprintf(a.Stdout, "%s: %s changed from %s to %s\n", view.Printable(workspace.Name), column,
			shownValue(changed[column][0]), shownValue(changed[column][1]))
	}
	return nil
}

func shownValue(value any) string {
	if value == nil {
		return "not set"
	}
	return view.Printable(fmt.Sprint(value))
}

func (a *App) printWorkspace(w operate.Workspace, definitions []operate.Definition) error {
	table := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	own := "from its plan"
	if w.MaxConcurrentWorkflows != nil {
		own = "set for this workspace"
	}
	fmt.Fprintf(table,
		"workspace\t%s\nid\t%s\nplan\t%s\nlimit\t%d, %s\nburst\t%s\nrate\t%s\npaused\t%s\n",
		view.Printable(w.Name), w.ID, w.Plan, w.Limit, own, burstOf(w), rateOf(w), yesNo(w.Paused))
	fmt.Fprintf(table, "running\t%d\nclaimed\t%d\nunanswered\t%s\nuncertain\t%s\nwaiting\t%d\noldest waiting\t%s\n"+
		"scheduled\t%d\ncreated\t%s\n\n",
		w.Running, w.Claimed,
		view.Unanswered(w.Unanswered, w.OldestUnanswered), view.Unanswered(w.Uncertain, w.OldestUncertain), w.Waiting,
		oldestOf(w), w.Scheduled, stamp(w.CreatedAt))
	fmt.Fprintln(table, definitionHeads)
	for _, d := range definitions {
		fmt.Fprintln(table, definitionCells(d, "none (cannot be started)"))
	}
	if len(definitions) == 0 {
		fmt.Fprintln(table, "no workflow definitions; insert one into pgdispatch.workflow_definitions")
	}
	return table.Flush()
}

func burstOf(w operate.Workspace) string {
	if w.Burst <= w.Limit {
		return "-"
	}
	return "up to " + strconv.Itoa(w.Burst)
}

func rateOf(w operate.Workspace) string {
	if w.MaxStartsPerSecond == nil {
		return "-"
	}
	return strconv.FormatFloat(*w.MaxStartsPerSecond, 'g', -1, 64) + "/s"
}

func oldestOf(w operate.Workspace) string {
	if w.OldestWaiting == nil {
		return "-"
	}
	return view.Shortly(max(*w.OldestWaiting, time.Duration(0)))
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// needsOwner is added to the help of commands that only the owner's role may execute.
const needsOwner = "It needs the role pgdispatch_owner."

// explainOwner adds whose role is needed to the error of a role that lacks a privilege.
func explainOwner(err error) error {
	if !postgres.IsForbidden(err) {
		return err
	}
	return errors.Join(err, errors.New("only the owner adds workspaces and definitions and purges items: connect as a "+
		"member of pgdispatch_owner"))
}

func (a *App) workspacesCreateCommand() *cobra.Command {
	var plan, limit, burst, rate string
	var paused, twin bool
	command := &cobra.Command{
		Use: "create NAME", Short: "Add a workspace", Args: cobra.ExactArgs(1),
		Long: "Add a workspace. " + needsOwner,
		Example: "  pgdispatch workspaces create Acme --plan PRO\n  pgdispatch workspaces create Acme --limit 8 " +
			"--rate 2.5 --paused",
		RunE: a.withStore(func(ctx context.Context, store *operate.Store, args []string) error {
			if err := operate.CheckName("NAME", args[0]); err != nil {
				return err
			}
			terms := map[string]string{"limit": limit, "burst": burst, "rate": rate}
			patch, err := operate.ReadTerms(operate.WorkspaceTerms, "--%s: %w", func(name string) (string, bool) {
				return terms[name], true
			})
			if err == nil && plan != "" {
				var planned operate.Patch
				planned, err = planPatch(ctx, store, plan)
				maps.Copy(patch, planned)
			}
			if err != nil {
				return err
			}
			patch["paused"] = paused
			if err := refuseTwin(ctx, store, args[0], twin); err != nil {
				return err
			}
			made, err := store.CreateWorkspace(ctx, args[0], patch, a.who)
			if err != nil {
				return explainOwner(err)
			}
			return a.say(made, "created workspace %s with the ID %s on plan %s; `pgdispatch "+
				"definitions create` adds what it can start",
				view.Printable(args[0]), made.ID, made.Plan)
		}),
	}
	flags := command.Flags()
	flags.StringVar(&plan, "plan", "", "plan (default: FREE)")
	flags.StringVar(&limit, "limit", "plan", "maximum number of concurrent workflows; plan: the plan's")
	flags.StringVar(&burst, "burst", "plan", "maximum number while no other workspace needs the workers; plan: the plan's")
	flags.StringVar(&rate, "rate", "off", "maximum number of starts per second; off: no limit")
	flags.BoolVar(&paused, "paused", false, "start nothing until it is resumed")
	flags.BoolVar(&twin, "twin", false, "even if a workspace has this name")
	return a.changes(command)
}

// refuseTwin refuses a name that a workspace has, because commands could no longer name either of them by it.
func refuseTwin(ctx context.Context, store *operate.Store, name string, allowed bool) error {
	if allowed {
		return nil
	}
	found, err := store.FindWorkspaces(ctx, name)
	if err != nil || len(found) == 0 {
		return err
	}
	return fmt.Errorf("workspace %s has the name %.80q already: choose another, or repeat it with --twin", found[0].ID,
		name)
}

func needed(flags map[string]string) error {
	for flag, value := range flags {
		if strings.TrimSpace(value) == "" {
			return fmt.Errorf("--%s is missing", flag)
		}
	}
	return nil
}
