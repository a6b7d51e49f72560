package main

import (
	"errors"
	"log/slog"

	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/operate/cli"
	"github.com/pgdispatch/pgdispatch/internal/replica"
	"github.com/pgdispatch/pgdispatch/internal/telemetry"
	"github.com/spf13/cobra"
)

// runCommand returns the command that runs a replica.
func runCommand(s surroundings) *cobra.Command {
	command := &cobra.Command{
		Use:   "run",
		Short: "Run a replica until SIGTERM",
		Long: "Run a replica: claim items, start their workflows, and watch for their ends. Run as many as you like.\n" +
			"SIGTERM or Ctrl-C lets hand-overs under way finish; a second one exits at once.",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			c, err := config.ReadVerified(command.Flags(), s.lookupEnv, config.RunOptions)
			unknown := config.UnknownVariables(s.environment)
			if err := errors.Join(err, c.Check()); err != nil {
				cli.WarnUnknown(s.stderr, unknown)
				return err
			}
			lines := telemetry.NewLogLines(s.stderr)
			return lines.During(command.Context(), func() error {
				log := lines.Logger(c.LogLevel)
				warnUnknown(log, unknown)
				return replica.Run(command.Context(), c, buildVersion(), log)
			})
		},
	}
	config.AddFlags(command.Flags(), config.RunOptions)
	return command
}

func warnUnknown(log *slog.Logger, unknown []config.UnknownVariable) {
	for _, u := range unknown {
		log.Warn("Ignoring an environment variable that is not known", "variable", u.Name, "did_you_mean", u.Nearest)
	}
}
