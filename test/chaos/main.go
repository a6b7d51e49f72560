// Command chaos breaks everything around pgdispatch that can be broken on one machine, and then checks that nothing
// was lost, done twice, or over a limit.
//
//	go run -C test ./chaos                        # all faults; some minutes, more with CHAOS_MINUTES
//	go run -C test ./chaos -seed 42               # the same schedule again
//	go run -C test ./chaos -only kill,freeze      # some faults, one after another
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/fault"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/report"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/run"
	"github.com/pgdispatch/pgdispatch/test/internal/command"
)

const (
	// defaultOut is where a complete run writes. Other runs write only to a path that is given.
	defaultOut = "chaos/report.md"
	// minutesVariable is the environment variable for the duration of a run in minutes.
	minutesVariable = "CHAOS_MINUTES"
	// defaultMinutes is the duration if the variable is not set.
	defaultMinutes = 12
	// longMinutes is the duration from which faults that take minutes are included.
	longMinutes = 15
)

func main() {
	command.Main(func(ctx context.Context, args []string) error { return do(ctx, args, os.Stdout) })
}

// options are the command-line options.
type options struct {
	run.Options
	out, record string
	list, long  bool
}

func read(args []string, out io.Writer) (options, error) {
	var o options
	var only, shard string
	minutes := float64(defaultMinutes)
	if text := os.Getenv(minutesVariable); text != "" {
		var err error
		if minutes, err = strconv.ParseFloat(text, 64); err != nil {
			return o, fmt.Errorf("%s is %q: it must be a number of minutes", minutesVariable, text)
		}
	}
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Uint64Var(&o.Seed, "seed", 0, "seed of the schedule; 0: a random one, which is printed")
	flags.StringVar(&o.Pgdispatch, "pgdispatch", "../bin/pgdispatch-failpoint",
		"the binary to test, see `make failpoint`")
	flags.StringVar(&o.Devstack, "devstack", "../bin/devstack", "the binary that embeds Temporal, see `make devstack`")
	flags.StringVar(&o.out, "out", "", "where to write the report; default "+defaultOut+" for a whole run, else nowhere")
	flags.StringVar(&only, "only", "", "faults to measure, separated by commas, without random ones: see -list")
	flags.StringVar(&shard, "shard", "1/1", "which part of the measured faults, such as 1/3, for machines that have "+
		"little time at once; needs the same -seed and -record for all")
	flags.StringVar(&o.record, "record", "", "directory that keeps the shards' outcomes; the last one writes the report")
	flags.IntVar(&o.Rounds, "rounds", 1, "how often each cut of the quiet faults is made")
	flags.BoolVar(&o.Keep, "keep", false, "keep the directory with all logs")
	flags.BoolVar(&o.list, "list", false, "list the faults and exit")
	flags.BoolVar(&o.long, "long", false,
		fmt.Sprintf("also the faults that take minutes, which a run of %d minutes includes anyway", longMinutes))
	flags.Float64Var(&minutes, "minutes", minutes,
		"approximate minimum duration of a whole run, or of a shard; $"+minutesVariable)
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 || minutes <= 0 || o.Rounds < 1 {
		return o, errors.New("chaos takes only flags, and -minutes and -rounds above 0: see -help")
	}
	if _, err := fmt.Sscanf(shard, "%d/%d", &o.Shard, &o.Shards); err != nil || o.Shard < 1 || o.Shard > o.Shards ||
		o.Shards > 1 && (o.Seed == 0 || o.record == "") {
		return o, fmt.Errorf("-shard is %q: it must be like 1/3, with -seed and -record", shard)
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64N(1 << 32)
	}
	o.Length, o.Faults = time.Duration(minutes*float64(time.Minute)), fault.All()
	if only != "" {
		var err error
		if o.Faults, o.Stay, err = choose(o.Faults, only); err != nil {
			return o, err
		}
		o.Partial = true
	} else {
		o.Stay = true
		o.Faults = slices.DeleteFunc(o.Faults,
			func(f *fault.Fault) bool { return f.Long && !o.long && minutes < longMinutes })
		if o.out == "" {
			o.out = defaultOut
		}
	}
	o.Options.Out, o.Options.Options.Log = out, out
	return o, nil
}

func choose(all []*fault.Fault, only string) (chosen []*fault.Fault, stay bool, err error) {
	for name := range strings.SplitSeq(only, ",") {
		if strings.TrimSpace(name) == run.Stay {
			stay = true
			continue
		}
		n := slices.IndexFunc(all, func(f *fault.Fault) bool { return f.Name == strings.TrimSpace(name) })
		if n < 0 {
			return nil, false, fmt.Errorf("there is no fault %q: see -list", name)
		}
		chosen = append(chosen, all[n])
	}
	return chosen, stay, nil
}

func do(ctx context.Context, args []string, out io.Writer) error {
	o, err := read(args, out)
	if err != nil {
		return err
	}
	if o.list {
		for _, f := range o.Faults {
			_, _ = fmt.Fprintf(out, "%-26s %v %s\n", f.Name, f.Matrix, f.How)
		}
		_, _ = fmt.Fprintf(out, "%-26s [75] the last ones, after all others\n", run.Stay)
		return nil
	}
	for _, binary := range []*string{&o.Pgdispatch, &o.Devstack} {
		if *binary, err = filepath.Abs(*binary); err != nil {
			return fmt.Errorf("find binary: %w", err)
		}
		if _, err := os.Stat(*binary); err != nil {
			return fmt.Errorf("find binary: %w: run `make failpoint devstack`", err)
		}
	}
	outcome, err := run.Do(ctx, o.Options)
	if err != nil {
		return err
	}
	report.Print(out, outcome)
	if err := write(o, outcome); err != nil {
		return err
	}
	if !outcome.OK() {
		return fmt.Errorf("the run failed: repeat it with -seed %d -keep", outcome.Seed)
	}
	return nil
}

// write writes the report. In a sharded run, the last shard writes the report of all shards.
func write(o options, outcome *run.Outcome) error {
	if o.Shards > 1 {
		if err := report.Save(o.record, o.Shard, o.Shards, outcome); err != nil {
			return err
		}
		whole, complete, err := report.Merge(o.record, o.Shards)
		if err != nil || !complete {
			return err
		}
		outcome = whole
	}
	if o.out == "" {
		return nil
	}
	return report.Write(o.out, outcome)
}
