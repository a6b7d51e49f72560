package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

const policyHelp = "\n\nWith --key, --on-conflict says what happens while the last item with the key waits or runs.\n" +
	"skip: insert nothing. replace: if it waits, it takes the new params. debounce: likewise, and it becomes due\n" +
	"--quiet from now, at most --at-most after it was enqueued."

// keyFlags are the flags of `enqueue` for a key.
type keyFlags struct {
	operate.KeyPolicy
	quiet, atMost time.Duration
}

func (f *keyFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.Key, "key", "", "key of the workspace, for --on-conflict")
	flags.StringVar(&f.OnConflict, "on-conflict", "",
		"for --key: skip, replace or debounce (default: skip)")
	flags.DurationVar(&f.quiet, "quiet", 0, "for debounce: how long no other call must come, such as 5s")
	flags.DurationVar(&f.atMost, "at-most", 0, "for debounce: longest wait since the first call, such as 1m")
}

// check refuses flags that do not go together, and notes which are given. The database checks the values.
func (f *keyFlags) check(flags *pflag.FlagSet) error {
	for _, needs := range []string{"on-conflict", "quiet", "at-most"} {
		if flags.Changed(needs) && f.Key == "" {
			return fmt.Errorf("--%s needs --key", needs)
		}
	}
	if f.Key != "" && flags.Changed("idempotency-key") {
		return errors.New("give either --key or --idempotency-key")
	}
	if flags.Changed("quiet") {
		f.Quiet = &f.quiet
	}
	if flags.Changed("at-most") {
		f.AtMost = &f.atMost
	}
	f.KeepPriority = !flags.Changed("priority")
	return clean("key", f.Key)
}

func (a *App) enqueueKeyed(ctx context.Context, store *operate.Store, item operate.NewItem, who, output string) error {
	all, err := store.EnqueueKeyed(ctx, []operate.NewItem{item}, who)
	switch {
	case err != nil:
		return err
	case len(all) == 0:
		return errors.New("a trigger of your own on pgdispatch.workflow_execution_queue suppressed the item")
	}
	made := all[0]
	return a.say(output, made, "%s item %d: execution %s. Follow it with `pgdispatch items show %d`", made.Action, made.ID,
		made.ExecutionID, made.ID)
}
