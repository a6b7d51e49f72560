package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/operate/doctor"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

// Exit codes of doctor.
const (
	exitProblems = 1 // a problem was found
	exitUnknown  = 2 // a check could not be made, and no problem was found
)

func (a *App) doctorCommand() *cobra.Command {
	var strict bool
	var timeout time.Duration
	command := &cobra.Command{
		Use: "doctor", Short: "Check Postgres, Temporal and the schema, and suggest remedies", Args: cobra.NoArgs,
		Long: "Check Postgres, Temporal and the schema, and suggest remedies. Doctor changes nothing. Run it with the\n" +
			"configuration and the database role of `pgdispatch run`, on the same machine.\n\n" +
			"Exit code 0: ok, or warnings only. 1: at least one error. 2: no error, but a check could not be made, or\n" +
			"invalid arguments.",
		RunE: func(command *cobra.Command, _ []string) error {
			c, err := config.Read(command.Flags(), a.LookupEnv, config.DoctorOptions)
			if err = errors.Join(err, checkShared(command.Flags())); err != nil {
				return coded{err, exitUnknown}
			}
			ctx, cancel := context.WithTimeoutCause(command.Context(), timeout,
				fmt.Errorf("doctor timed out after %s: see --timeout", timeout))
			defer cancel()
			findings := doctor.Examine(ctx, c)
			if err := a.printFindings(findings); err != nil {
				return coded{err, exitUnknown}
			}
			return verdict(findings, strict)
		},
	}
	command.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return coded{err, exitUnknown} })
	command.Flags().BoolVar(&strict, "strict", false, "treat warnings as errors")
	command.Flags().DurationVar(&timeout, "timeout", time.Minute, "timeout of all checks together")
	config.AddFlags(command.Flags(), config.DoctorOptions)
	return a.reads(command)
}

// verdict returns nil if everything is fine, otherwise an error with the exit code.
func verdict(findings []doctor.Finding, strict bool) error {
	n := countBySeverity(findings)
	switch {
	case n[doctor.Problem] > 0 || strict && n[doctor.Warning] > 0:
		return coded{errors.New("problems found: see the remedies"), exitProblems}
	case n[doctor.Unknown] > 0:
		return coded{errors.New("some checks could not be made"), exitUnknown}
	}
	return nil
}

func countBySeverity(findings []doctor.Finding) map[doctor.Severity]int {
	n := map[doctor.Severity]int{}
	for _, f := range findings {
		n[f.Severity]++
	}
	return n
}

func (a *App) printFindings(findings []doctor.Finding) error {
	n := countBySeverity(findings)
	if a.output == "json" {
		return a.printJSON(struct {
			Findings []doctor.Finding        `json:"findings"`
			Summary  map[doctor.Severity]int `json:"summary"`
		}{findings, n})
	}
	table := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	for _, f := range findings {
		fmt.Fprintf(table, "%s\t%s\t%s\n", strings.ToUpper(string(f.Severity)), f.Check, view.Printable(f.Finding))
		if f.Severity != doctor.Fine {
			fmt.Fprintf(table, "\t\t  meaning: %s\n\t\t  remedy: %s\n", f.Meaning, f.Remedy)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.Stdout, "\n%d ok, %d warnings, %d errors, %d unknown\n", n[doctor.Fine], n[doctor.Warning],
		n[doctor.Problem], n[doctor.Unknown])
	return err
}
