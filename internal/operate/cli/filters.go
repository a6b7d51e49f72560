package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/spf13/pflag"
)

// filterFlags are the flags that select items and dead letters.
type filterFlags struct{ workspace, definition, errorText, since, until string }

// add adds the flags. happened names the event that --since and --until refer to.
func (f *filterFlags) add(flags *pflag.FlagSet, happened string) {
	flags.StringVar(&f.workspace, "workspace", "", "only this workspace, by ID or name")
	flags.StringVar(&f.definition, "definition", "", "only this workflow definition, by ID or name")
	flags.StringVar(&f.errorText, "error", "", "only errors that contain this text, ignoring case")
	flags.StringVar(&f.since, "since", "", "only "+happened+
		" since this time (2026-08-01T10:00:00Z), UTC day (2026-08-01), or age (30m, 2h, 7d)")
	flags.StringVar(&f.until, "until", "", "only "+happened+" until this time, UTC day, or age")
}

func (f *filterFlags) given() bool { return *f != filterFlags{} }

// find returns the IDs of the matching dead letters, latest failure first. Zero means no limit.
func (f *filterFlags) find(ctx context.Context, store *operate.Store, state string, limit int) ([]int64, error) {
	since, until, err := f.read(ctx, store)
	if err != nil {
		return nil, err
	}
	filter := operate.DeadFilter{State: state, Workspace: f.workspace, Definition: f.definition, Error: f.errorText,
		Since: since, Until: until}
	return store.FindDeadLetters(ctx, filter, limit)
}

// read parses the time flags and resolves the names.
func (f *filterFlags) read(ctx context.Context, store *operate.Store) (since, until operate.Moment, err error) {
	since, until, err = parsePeriod(f.since, f.until)
	if err := errors.Join(err, clean("workspace", f.workspace), clean("definition", f.definition),
		clean("error", f.errorText)); err != nil {
		return since, until, err
	}
	return since, until, f.resolve(ctx, store)
}

// resolve checks that the given names exist and corrects their case.
func (f *filterFlags) resolve(ctx context.Context, store *operate.Store) error {
	workspaceKnown, definitionKnown, err := store.KnowsName(ctx, f.workspace, f.definition)
	if err != nil {
		return err
	}
	if f.workspace != "" && !workspaceKnown && !operate.IsUUID(f.workspace) {
		names, err := store.WorkspaceNames(ctx, f.workspace)
		if err != nil {
			return err
		}
		known, suggestion, err := asWritten(&f.workspace, names)
		if err != nil {
			return fmt.Errorf("--workspace: %w", err)
		}
		if !known {
			return fmt.Errorf("--workspace is %q: no workspace has this name or ID; see `pgdispatch workspaces list`%s",
				f.workspace, suggestion)
		}
	}
	if f.definition != "" && !definitionKnown && !operate.IsUUID(f.definition) {
		names, err := store.DefinitionNames(ctx, "", f.definition)
		if err != nil {
			return err
		}
		known, suggestion, err := asWritten(&f.definition, names)
		if err != nil {
			return fmt.Errorf("--definition: %w", err)
		}
		if !known {
			return fmt.Errorf("--definition is %q: no workflow definition has this name or ID; see `pgdispatch workspaces "+
				"show`%s", f.definition, suggestion)
		}
	}
	return nil
}

// clean refuses text that no row can contain, with a better message than the database's.
func clean(flag, text string) error {
	switch {
	case postgres.Clean(text) != strings.TrimSpace(text):
		return fmt.Errorf("--%s is %.80q: it must have at most 2000 characters and no control characters", flag, text)
	case text != "" && strings.TrimSpace(text) == "":
		return fmt.Errorf("--%s is blank: omit it instead", flag)
	}
	return nil
}

// parsePeriod parses --since and --until.
func parsePeriod(sinceText, untilText string) (since, until operate.Moment, err error) {
	since, sinceErr := parseMoment("since", sinceText)
	until, untilErr := parseMoment("until", untilText)
	if err := errors.Join(sinceErr, untilErr); err != nil {
		return since, until, err
	}
	if since.At != nil && until.At != nil && since.At.After(*until.At) || since.Ago != nil && until.Ago != nil &&
		*since.Ago < *until.Ago {
		return since, until, fmt.Errorf("--since %s is later than --until %s", sinceText, untilText)
	}
	return since, until, nil
}

// parseMoment parses a time, a day, or a duration before now.
func parseMoment(flag, text string) (operate.Moment, error) {
	if text == "" {
		return operate.Moment{}, nil
	}
	if ago, err := parseDays(text); err == nil && ago >= 0 {
		return operate.Moment{Ago: &ago}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			return operate.Moment{At: &at}, nil
		}
	}
	return operate.Moment{}, fmt.Errorf("--%s is %q: it must be a time such as 2026-08-01T10:00:00Z, a day such as "+
		"2026-08-01, or an age such as 30m, 2h or 7d", flag, text)
}
