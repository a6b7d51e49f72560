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
	"github.com/pgdispatch/pgdispatch/internal/temporal"
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
	for _, of := range []operate.Named{operate.NamedWorkspace, operate.NamedDefinition} {
		value := &f.workspace
		if of == operate.NamedDefinition {
			value = &f.definition
		}
		if *value == "" || operate.IsUUID(*value) {
			continue
		}
		names, err := store.Names(ctx, of, *value)
		if err != nil {
			return err
		}
		if names.Known {
			continue
		}
		written, err := oneOf(*value, names.Same)
		switch {
		case err != nil:
			return fmt.Errorf("--%s: %w", of, err)
		case written == "":
			what := strings.Replace(string(of), "definition", "workflow definition", 1)
			return fmt.Errorf("--%s is %q: no %s has this name or ID; see `pgdispatch %ss list`%s", of, *value, what, of,
				didYouMean(*value, names.Near))
		}
		*value = written
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

// refKey returns the canonical form of a REF: the item's number or its execution's ID.
func refKey(ref string) string {
	if id, err := strconv.ParseInt(ref, 10, 64); err == nil {
		return strconv.FormatInt(id, 10) // normalizes +7 and 007 to 7
	}
	return strings.ToLower(temporal.TrimID(ref))
}

// parseRefs parses references to items by item ID, execution ID or workflow ID.
func parseRefs(refs []string) (items []int64, executions []string, err error) {
	items, executions = []int64{}, []string{}
	for _, ref := range refs {
		key := refKey(ref)
		if operate.IsUUID(key) {
			executions = append(executions, key)
			continue
		}
		id, err := strconv.ParseInt(key, 10, 64)
		if err != nil {
			return nil, nil, fmt.Errorf(
				"%.80q is not an item ID (a number), execution ID (a UUID) or workflow ID (execution-...): "+
					"an item that names its workflow ID goes by the others", ref)
		}
		items = append(items, id)
	}
	return items, executions, nil
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
	ids, executions, err := parseRefs(refs)
	if err != nil {
		return nil, err
	}
	found, err := store.Items(ctx, ids, executions, withParams)
	if err != nil {
		return nil, err
	}
	byRef := map[string]operate.Item{}
	for _, item := range found {
		if allowed(item) {
			byRef[strconv.FormatInt(item.ID, 10)], byRef[item.ExecutionID] = item, item
		}
	}
	ordered, seen := []operate.Item{}, map[int64]bool{}
	for _, ref := range refs {
		item, ok := byRef[refKey(ref)]
		if !ok {
			return nil, fmt.Errorf("%s %w", ref, missing)
		}
		if !seen[item.ID] {
			seen[item.ID] = true
			ordered = append(ordered, item)
		}
	}
	return ordered, nil
}
