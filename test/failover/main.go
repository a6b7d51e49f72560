// Command failover runs pgdispatch on a cluster of Patroni, makes the primary change in every way that it can, and then
// checks that nothing that was acknowledged is lost, that nothing was started twice, and that starts went on as soon as
// the database did.
//
//	go run -C test ./failover                                # 30 events in four clusters; some 15 minutes
//	go run -C test ./failover -modes sync -events 8 -seed 42 # one cluster, the same events again
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
	"strings"
	"time"

	"github.com/pgdispatch/pgdispatch/test/failover/internal/cluster"
	"github.com/pgdispatch/pgdispatch/test/failover/internal/run"
	"github.com/pgdispatch/pgdispatch/test/internal/command"
)

const (
	// defaultOut is where a run of all modes writes its report.
	defaultOut = "failover/report.md"
	// defaultEvents is how many events there are.
	defaultEvents = 30
	// defaultLimit is how long starts may stay away once acknowledgements are back.
	defaultLimit = time.Second
	// defaultRate is how many items are inserted per second.
	defaultRate = 50
)

func main() {
	command.Main(func(ctx context.Context, args []string) error { return do(ctx, args, os.Stdout) })
}

// options are the command-line options.
type options struct {
	run.Options
	out string
}

func read(args []string, out io.Writer) (options, error) {
	o := options{Options: run.Options{Log: out, Modes: run.Modes}}
	var modes string
	flags := flag.NewFlagSet("failover", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&o.Pgdispatch, "pgdispatch", "../bin/pgdispatch", "the binary to test, see `make build`")
	flags.StringVar(&o.Devstack, "devstack", "../bin/devstack", "the binary that embeds Temporal, see `make devstack`")
	flags.Uint64Var(&o.Seed, "seed", 0, "seed of the order of events; 0: a random one, which is printed")
	flags.IntVar(&o.Events, "events", defaultEvents, "number of events in all modes together")
	flags.StringVar(&modes, "modes", "", "some of sync, async, sync-hosts, async-hosts, separated by commas; default all")
	flags.DurationVar(&o.Limit, "limit", defaultLimit, "how long starts may stay away once acknowledgements are back")
	flags.Float64Var(&o.Rate, "rate", defaultRate, "items to insert per second")
	flags.StringVar(&o.out, "out", "", "where to write the report; default "+defaultOut+" for all modes, else nowhere")
	flags.BoolVar(&o.Keep, "keep", false, "keep the directory with all logs")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 || o.Events < 1 || o.Rate <= 0 || o.Limit <= 0 {
		return o, errors.New("failover takes only flags, and -events, -rate and -limit above 0: see -help")
	}

	if o.Seed == 0 {
		o.Seed = rand.Uint64N(1 << 32)
	}
	if modes == "" {
		if o.out == "" {
			o.out = defaultOut
		}
		return o, nil
	}
	var err error
	o.Modes, err = choose(modes)
	return o, err
}

// choose returns the modes with the given names.
func choose(names string) (chosen []run.Mode, err error) {
names:
	for name := range strings.SplitSeq(names, ",") {
		for _, mode := range run.Modes {
			if mode.Name == strings.TrimSpace(name) {
				chosen = append(chosen, mode)
				continue names
			}
		}
		return nil, fmt.Errorf("there is no mode %q: see -help", name)
	}
	return chosen, nil
}

func do(ctx context.Context, args []string, out io.Writer) error {
	o, err := read(args, out)
	if err != nil {
		return err
	}
	if missing := cluster.Missing(); len(missing) > 0 {
		return fmt.Errorf("find programs: %s missing: run `make failover-tools`", strings.Join(missing, ", "))
	}
	for _, binary := range []*string{&o.Pgdispatch, &o.Devstack} {
		if *binary, err = filepath.Abs(*binary); err != nil {
			return fmt.Errorf("find binary: %w", err)
		}
		if _, err := os.Stat(*binary); err != nil {
			return fmt.Errorf("find binary: %w: run `make build devstack`", err)
		}
	}

	outcome, err := run.Do(ctx, o.Options)
	if err != nil {
		return err
	}
	if err := outcome.Print(out, o.out); err != nil {
		return err
	}
	if !outcome.OK() {
		return fmt.Errorf("the run failed: repeat it with -seed %d -keep", outcome.Seed)
	}
	return nil
}
