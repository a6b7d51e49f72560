package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

func (a *App) auditCommand() *cobra.Command {
	group := &cobra.Command{Use: "audit", Short: "Show who changed what, and when"}
	list := a.auditListCommand()
	group.AddCommand(list)
	return group
}

func (a *App) auditListCommand() *cobra.Command {
	var filter operate.AuditFilter
	var since, until string
	command := &cobra.Command{
		Use: "list", Short: "List changes, newest first", Args: cobra.NoArgs,
		Long: "List changes by commands and the web view, newest first. BY is the name given with the change, ROLE the\n" +
			"Postgres role. Of changes by plain SQL, only requests to stop executions are listed.",
		RunE: a.withStore(func(ctx context.Context, store *operate.Store, _ []string) error {
			err := errors.Join(clean("by", filter.Who), clean("action", filter.Action))
			if err != nil {
				return err
			}
			if filter.Since, filter.Until, err = parsePeriod(since, until); err != nil {
				return err
			}
			changes, err := store.Audit(ctx, filter, a.limit)
			if err != nil {
				return err
			}
			return list[operate.Administered]{
				rows: changes, none: "no changes match",
				more:  func(last operate.Administered) string { return fmt.Sprintf("continue with --before %d", last.ID) },
				heads: "ID\tAT\tBY\tROLE\tACTION\tSUBJECT\tDETAILS",
				cells: func(c operate.Administered) string {
					return fmt.Sprintf("%d\t%s\t%s\t%s\t%s\t%s\t%s", c.ID, stamp(c.At), view.Printable(c.Who),
						view.Printable(c.Role), view.Printable(c.Action), view.Printable(c.Subject), cut(view.ChangeWords(c.Details)))
				},
			}.print(a)
		}),
	}
	command.Flags().StringVar(&filter.Who, "by", "", "only changes by this person")
	command.Flags().StringVar(&filter.Action, "action", "",
		"only actions with this prefix, such as workspaces or 'dead replay'")
	addPeriod(command.Flags(), &since, &until)
	command.Flags().Int64Var(&filter.Before, "before", 0, "only rows with a lower ID, for the next page")
	return a.lists(command)
}
