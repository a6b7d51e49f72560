package main

import (
	"errors"
	"io"

	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/replica"
	"github.com/pgdispatch/pgdispatch/internal/telemetry"
	"github.com/spf13/cobra"
)

// runCommand returns the command that runs a replica.
func runCommand(lookupEnv func(string) (string, bool), stderr io.Writer) *cobra.Command {
	command := &cobra.Command{
		Use:   "run",
		Short: "Run a replica until SIGTERM",
		Long: "Run a replica: claim items, start their workflows and record their ends. Any number of replicas may run.\n" +
			"SIGTERM or Ctrl-C lets running starts finish; a second signal exits immediately.",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			c, err := config.ReadVerified(command.Flags(), lookupEnv, config.RunOptions)
			if err := errors.Join(err, c.Check()); err != nil {
				return err
			}
			lines := telemetry.NewLogLines(stderr)
			return lines.During(command.Context(), func() error {
				return replica.Run(command.Context(), c, buildVersion(), lines.Logger(c.LogLevel))
			})
		},
	}
	config.AddFlags(command.Flags(), config.RunOptions)
	return command
}
