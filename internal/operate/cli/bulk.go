package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

const (
	// bulkItems and bulkBytes bound one transaction of `enqueue --from`.
	bulkItems = 500
	bulkBytes = 8 << 20
	// maxFaults is the number of bad lines that are shown.
	maxFaults = 50
)

const bulkHelp = "\n\nWith --from, enqueue the items of a file: one JSON object per line, or CSV whose first line\n" +
	"names the columns. The fields are workspace, definition, params, priority, run_at, start_before,\n" +
	"idempotency_key, limit_key, workflow_id, traceparent, start_options, key, on_conflict, quiet and at_most;\n" +
	"DEFINITION and --workspace stand for missing ones. A bad line ends it; those before it stay enqueued. If each\n" +
	"line has an idempotency_key, repeating is safe."

const bulkExample = "\n  pgdispatch enqueue --from orders.ndjson --dry-run\n" +
	"  generate-orders | pgdispatch enqueue order --workspace Acme --from - --skip-invalid"

// bulkFlags are the flags of `enqueue` for many items.
type bulkFlags struct {
	from                string
	skipInvalid, dryRun bool
}

func (f *bulkFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.from, "from", "", "NDJSON or CSV file with items; -: standard input")
	flags.BoolVar(&f.skipInvalid, "skip-invalid", false, "for --from: report bad lines and go on")
	flags.BoolVar(&f.dryRun, "dry-run", false, "for --from: only check the whole file")
}

// check refuses flags that belong to one item only.
func (f *bulkFlags) check(flags *pflag.FlagSet) error {
	for _, field := range lineFields[2:] {
		if one := flagOf(field); f.from != "" && flags.Changed(one) {
			return fmt.Errorf("--%s is for one item, and --from is for many: give each line its own", one)
		}
	}
	if f.from == "" && (f.skipInvalid || f.dryRun) {
		return errors.New("--skip-invalid and --dry-run need --from")
	}
	return nil
}

// bulk enqueues the items of a file.
type bulk struct {
	bulkFlags
	store *operate.Store
	names bulkNames
	who   string
	warn  io.Writer
	meter *meter

	batch []operate.NewItem
	lines []int // of batch
	bytes int   // of batch

	result bulkResult
}

// bulkResult is the output of `enqueue --from`.
type bulkResult struct {
	Enqueued int  `json:"enqueued"`
	Existing int  `json:"existing"` // left out, because an item had their key already
	Replaced int  `json:"replaced"` // whose values a waiting item took
	Invalid  int  `json:"invalid"`  // lines that were left out
	DryRun   bool `json:"dry_run"`
	Through  int  `json:"through_line"` // all lines up to this one are done
}

// run reads to the end, a bad line or the end of ctx. Transactions are always completed.
func (b *bulk) run(ctx context.Context, next lineReader) error {
	lines, end := make(chan fileLine), make(chan error, 1)
	reading, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // a blocked read of a terminal or pipe cannot be cancelled
		for {
			line, err := next()
			if err != nil {
				end <- err
				return
			}
			select {
			case lines <- line:
			case <-reading.Done():
				return
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return errors.New("it was interrupted")
		case line := <-lines:
			if err := b.take(ctx, line); err != nil {
				return err
			}
		case err := <-end:
			if !errors.Is(err, io.EOF) {
				return fmt.Errorf("read --from: %w", err)
			}
			return b.flush(ctx)
		}
	}
}

func (b *bulk) take(ctx context.Context, line fileLine) error {
	item, err := b.itemOf(ctx, line)
	if err != nil {
		if ctx.Err() != nil || isOfDatabase(err) {
			return err
		}
		if !b.skipInvalid && !b.dryRun {
			if err := b.flush(ctx); err != nil { // those before it stay enqueued
				return err
			}
		}
		return b.fault(line.number, err)
	}
	if len(b.batch) > 0 && b.batch[0].Keyed() != item.Keyed() {
		if err := b.flush(ctx); err != nil {
			return err
		}
	}
	b.batch, b.lines, b.bytes = append(b.batch, item), append(b.lines, line.number), b.bytes+len(item.Params)
	if len(b.batch) < bulkItems && b.bytes < bulkBytes {
		return nil
	}
	return b.flush(ctx)
}

func (b *bulk) itemOf(ctx context.Context, line fileLine) (operate.NewItem, error) {
	if line.err != nil {
		return operate.NewItem{}, line.err
	}
	item, err := line.item()
	if err != nil {
		return item, err
	}
	return item, b.names.resolve(ctx, line.fields["workspace"], line.fields["definition"], &item)
}

// isOfDatabase reports whether an error concerns the database rather than a line.
func isOfDatabase(err error) bool {
	var named nameError
	return errors.As(err, &named) && named.database
}

// fault reports a bad line. The error ends the command.
func (b *bulk) fault(line int, err error) error {
	err = withHint(fmt.Errorf("line %d: %w", line, err))
	b.result.Invalid++
	if !b.skipInvalid && !b.dryRun {
		return err
	}
	switch {
	case b.result.Invalid <= maxFaults:
		b.meter.clear()
		fmt.Fprintln(b.warn, PrintableLines(postgres.Redact(err).Error()))
	case b.result.Invalid == maxFaults+1:
		b.meter.clear()
		fmt.Fprintln(b.warn, "further bad lines are counted only")
	}
	return nil
}

// flush enqueues the batch, even if ctx has ended.
func (b *bulk) flush(ctx context.Context) error {
	items, lines := b.batch, b.lines
	b.batch, b.lines, b.bytes = nil, nil, 0
	if len(items) == 0 {
		return nil
	}
	if err := b.insert(context.WithoutCancel(ctx), items, lines); err != nil {
		return err
	}
	b.meter.show(b.result.Enqueued + b.result.Existing + b.result.Replaced)
	return nil
}

// insert enqueues items in one transaction or, if Postgres refuses one of them, in several.
func (b *bulk) insert(ctx context.Context, items []operate.NewItem, lines []int) error {
	made, replaced, err := b.enqueue(ctx, items)
	switch {
	case err == nil:
		b.result.Enqueued += made
		b.result.Replaced += replaced
		b.result.Existing += len(items) - made - replaced
		b.result.Through = lines[len(lines)-1]
		return nil
	case !postgres.IsRefused(err):
		return fmt.Errorf("lines %d to %d: %w", lines[0], lines[len(lines)-1], err)
	case len(items) == 1:
		return b.fault(lines[0], err)
	}
	half := len(items) / 2
	if err := b.insert(ctx, items[:half], lines[:half]); err != nil {
		return err
	}
	return b.insert(ctx, items[half:], lines[half:])
}

// enqueue enqueues items, which all have a key or all have none, for a dry run in a transaction that is undone. It
// returns how many are new, and how many replaced the values of waiting ones.
func (b *bulk) enqueue(ctx context.Context, items []operate.NewItem) (made, replaced int, err error) {
	var all []operate.Enqueued
	enqueue := func(on *operate.Store) (err error) { all, err = on.Enqueue(ctx, items, b.who); return err }
	if b.dryRun {
		err = b.store.Rehearse(ctx, enqueue)
	} else {
		err = enqueue(b.store)
	}
	for _, one := range all {
		switch one.Action {
		case "inserted":
			made++
		case "replaced", "debounced":
			replaced++
		}
	}
	return made, replaced, err
}

// summary says what was done.
func (r bulkResult) summary() string {
	text := "enqueued " + view.Counted(r.Enqueued, "item")
	if r.DryRun {
		text = "would enqueue " + view.Counted(r.Enqueued, "item")
	}
	if r.Existing > 0 {
		text += fmt.Sprintf("; %d had their key already", r.Existing)
	}
	if r.Replaced > 0 {
		text += fmt.Sprintf("; %d replaced a waiting item's values", r.Replaced)
	}
	if r.Invalid > 0 {
		text += "; " + view.Counted(r.Invalid, "bad line")
	}
	return text
}

// enqueueMany carries out `enqueue --from`.
func (a *App) enqueueMany(ctx context.Context, store *operate.Store, f bulkFlags, names bulkNames,
	stdin io.Reader) error {
	from, size := stdin, int64(0)
	if f.from != "-" {
		file, err := os.Open(f.from) //nolint:gosec // the user chooses the path
		if err != nil {
			return fmt.Errorf("--from: %w", err)
		}
		defer func() { _ = file.Close() }()
		if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
			size = info.Size()
		}
		from = file
	}
	meter := a.newMeter(size)
	next, err := readLines(meter.reads(from))
	if err != nil {
		return fmt.Errorf("--from is %.200q: %w", f.from, err)
	}
	b := &bulk{bulkFlags: f, store: store, names: names, who: a.who, warn: a.Stderr, meter: meter,
		result: bulkResult{DryRun: f.dryRun}}
	err = b.run(ctx, next)
	meter.clear()
	if err == nil && f.dryRun && b.result.Invalid > 0 && !f.skipInvalid {
		err = errors.New("the file has bad lines")
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, strings.TrimSpace(b.result.summary()+b.result.goOn()))
	}
	return a.say(b.result, "%s", b.result.summary())
}

// goOn says how to continue after an error.
func (r bulkResult) goOn() string {
	switch {
	case r.DryRun:
		return ""
	case r.Through == 0:
		return ": correct it and start again"
	}
	return fmt.Sprintf(", all up to line %d: continue with the next line, or repeat the whole file if each line has an "+
		"idempotency_key", r.Through)
}
