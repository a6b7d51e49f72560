package main

import (
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/logging"
	"github.com/pgdispatch/pgdispatch/internal/operate/cli"
	"github.com/pgdispatch/pgdispatch/internal/replica"
	"github.com/spf13/cobra"
)

// runCommand returns the command that runs a replica.
func runCommand(s surroundings) *cobra.Command {
	command := &cobra.Command{
		Use:   "run",
		Short: "Run a replica until SIGTERM",
		Long: "Run a replica: claim items, start their workflows and record their ends. Any number of replicas may run.\n" +
			"SIGTERM or Ctrl-C lets running starts finish; another signal after a second exits immediately. SIGHUP reloads\n" +
			"log-level, admin-token, view-token and certificates.",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			load := func() (config.Loaded, error) { return config.Load(command.Flags(), s.lookupEnv) }
			unknown := config.UnknownVariables(s.environment)
			c, err := load()
			if err != nil {
				cli.WarnUnknown(s.stderr, unknown)
				return err
			}
			hangups := make(chan os.Signal, 1)
			signal.Notify(hangups, syscall.SIGHUP)
			defer signal.Stop(hangups)
			level := new(slog.LevelVar)
			level.Set(c.LogLevel)
			lines := logging.NewLines(s.stderr)
			return lines.During(command.Context(), func() error {
				log := lines.Logger(level)
				warnUnknown(log, unknown)
				reloads := &replica.Reloads{Requests: hangups, Read: load, Level: level}
				return replica.Run(command.Context(), c, buildVersion(), log, reloads)
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
