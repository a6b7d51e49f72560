package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

// filterFlags are the flags that select items and dead letters.
type filterFlags struct{ workspace, definition, errorText, since, until string }

// add adds the flags.
func (f *filterFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.workspace, "workspace", "", "only this workspace, by ID or name")
	flags.StringVar(&f.definition, "definition", "", "only this workflow definition, by ID or name")
	flags.StringVar(&f.errorText, "error", "", "only errors that contain this text, ignoring case")
	addPeriod(flags, &f.since, &f.until)
}

func addPeriod(flags *pflag.FlagSet, since, until *string) {
	flags.StringVar(since, "since", "",
		"only since this time (2026-08-01T10:00:00Z), UTC day (2026-08-01), or age (30m, 2h, 7d)")
	flags.StringVar(until, "until", "", "only until this time, UTC day, or age")
}

func (f *filterFlags) given() bool { return *f != filterFlags{} }

// read returns the filter that the flags give.
func (f *filterFlags) read(ctx context.Context, store *operate.Store) (filter operate.Filter, err error) {
	filter = operate.Filter{Workspace: f.workspace, Definition: f.definition, Error: f.errorText}
	filter.Since, filter.Until, err = parsePeriod(f.since, f.until)
	if err := errors.Join(err, clean("workspace", f.workspace), clean("definition", f.definition),
		clean("error", f.errorText)); err != nil {
		return filter, err
	}
	return filter, errors.Join(resolve(ctx, store, operate.NamedWorkspace, &filter.Workspace),
		resolve(ctx, store, operate.NamedDefinition, &filter.Definition))
}

// resolve checks that a name exists and corrects its case.
func resolve(ctx context.Context, store *operate.Store, of operate.Named, name *string) error {
	if *name == "" || operate.IsUUID(*name) {
		return nil
	}
	names, err := store.Names(ctx, of, *name)
	if err != nil || names.Known {
		return err
	}
	written, err := oneOf(*name, names.Same)
	switch {
	case err != nil:
		return fmt.Errorf("--%s: %w", of, err)
	case written == "":
		what := strings.Replace(string(of), "definition", "workflow definition", 1)
		return fmt.Errorf("--%s is %q: no %s has this name or ID; see `pgdispatch %ss list`%s", of, *name, what, of,
			didYouMean(*name, names.Near))
	}
	*name = written
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

// findItems finds the named items in the given order; see itemsOf and lettersOf.
type findItems func(ctx context.Context, store *operate.Store, refs []string, withParams bool) ([]operate.Item, error)

// itemsOf reads the named items in the given order. An item that does not exist is an error.
func itemsOf(ctx context.Context, store *operate.Store, refs []string, withParams bool) ([]operate.Item, error) {
	return itemsNamed(ctx, store, refs, withParams, func(operate.Item) bool { return true },
		errors.New("is not an item: it was never committed, or retention deleted it; see `pgdispatch items list`"))
}

// itemsNamed reads the named items that are allowed, in the order of refs, without duplicates. A ref of another is the
// error missing.
func itemsNamed(ctx context.Context, store *operate.Store, refs []string, withParams bool,
	allowed func(operate.Item) bool, missing error) ([]operate.Item, error) {
	named, err := store.ItemsNamed(ctx, refs, withParams)
	if err != nil {
		return nil, err
	}
	ordered, seen := []operate.Item{}, map[int64]bool{}
	for _, ref := range refs {
		items := named[ref]
		id, execution := operate.ParseRef(ref)
		switch {
		case len(items) > 1:
			return nil, fmt.Errorf("%.80q is the workflow ID of %d items that have not ended: give one of the item IDs %s", ref,
				len(items), numbers(items))
		case len(items) == 0 && id == 0 && execution == "":
			return nil, fmt.Errorf("%.80q is not an item ID (a number), execution ID (a UUID) or workflow ID (execution-...), "+
				"and no item that has not ended names this workflow ID", ref)
		case len(items) == 0 || !allowed(items[0]):
			return nil, fmt.Errorf("%s %w", ref, missing)
		case !seen[items[0].ID]:
			seen[items[0].ID] = true
			ordered = append(ordered, items[0])
		}
	}
	return ordered, nil
}

// numbers lists the IDs of items.
func numbers(items []operate.Item) string {
	ids := make([]string, len(items))
	for n, i := range items {
		ids[n] = strconv.FormatInt(i.ID, 10)
	}
	return strings.Join(ids, ", ")
}
