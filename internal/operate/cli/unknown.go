package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

// warnUnknown warns of misspelt variables before a command that reads settings. `run` logs them itself.
func (a *App) warnUnknown(command *cobra.Command, _ []string) {
	readsSettings := command.Flags().Lookup("config") != nil
	if readsSettings && command.Name() != "run" {
		WarnUnknown(a.Stderr, config.UnknownVariables(a.Environment))
	}
}

// WarnUnknown writes a line for each variable.
func WarnUnknown(to io.Writer, unknown []config.UnknownVariable) {
	for _, u := range unknown {
		fmt.Fprintln(to, "pgdispatch: warning:", view.Printable(u.String()))
	}
}
