package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

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
	var plan, limit, burst, rate, output, who string
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
			workspace := operate.NewWorkspace{Name: args[0], Paused: paused}
			if err := readTerms(ctx, store, &workspace, plan, limit, burst, rate); err != nil {
				return err
			}
			if err := refuseTwin(ctx, store, args[0], twin); err != nil {
				return err
			}
			made, err := store.CreateWorkspace(ctx, workspace, who)
			if err != nil {
				return explainOwner(err)
			}
			return a.say(output, made, "created workspace %s with the ID %s on plan %s; `pgdispatch "+
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
	addWho(flags, &who)
	addOutput(flags, &output)
	return command
}

// readTerms reads the plan, the limits and the rate of a new workspace.
func readTerms(ctx context.Context, store *operate.Store, w *operate.NewWorkspace,
	plan, limit, burst, rate string) error {
	limits, err := operate.LimitChange(limit)
	if err != nil {
		return fmt.Errorf("--limit: %w", err)
	}
	bursts, err := operate.BurstChange(burst)
	if err != nil {
		return fmt.Errorf("--burst: %w", err)
	}
	rates, err := operate.RateChange(rate)
	if err != nil {
		return fmt.Errorf("--rate: %w", err)
	}
	w.Limit, w.Burst, w.Starts = limits.Limit, bursts.Burst, rates.Starts
	if plan == "" {
		return nil
	}
	change, err := planChange(ctx, store, plan)
	w.Plan = change.Plan
	return err
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
