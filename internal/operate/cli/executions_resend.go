package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

func (a *App) executionsResendCommand() *cobra.Command {
	var output, who string
	command := &cobra.Command{
		Use: "resend SIGNAL", Short: "Send a signal that was given up again", Args: cobra.ExactArgs(1),
		Long: "Send a given-up signal again, by its ID in `executions signals --state given-up`, after all earlier ones:\n" +
			"to its workflow or, if its item was replayed, to that of the newest replay. If the workflow has ended, replay\n" +
			"its item first, with `dead replay`.",
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	command.RunE = a.withStore(func(ctx context.Context, store *operate.Store, args []string) error {
		id, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil || id < 1 {
			return fmt.Errorf("the signal is %.80q: it must be an ID of `pgdispatch executions signals --state given-up`",
				args[0])
		}
		sent, _, err := store.ResendSignal(ctx, id, "", who)
		if err != nil {
			return err
		}
		return a.say(output, sent, "signal %d was sent again as signal %d, to execution-%s", id, sent.ID, sent.ExecutionID)
	})
	addWho(command.Flags(), &who)
	addOutput(command.Flags(), &output)
	return command
}
