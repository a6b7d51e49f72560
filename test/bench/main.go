// Command bench measures pgdispatch against other contestants and writes the results, with plots, to
// test/bench/report.md. docs/benchmarks.md summarizes them.
//
//	go run -C test ./bench                      # everything; two to three hours
//	go run -C test ./bench -only idle,drain     # some scenarios, to the terminal
//	go run -C test ./bench -quick               # under a minute, to see that everything works
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/entrant"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/report"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/scenario"
	"github.com/pgdispatch/pgdispatch/test/internal/command"
)

// defaultOut is where a complete run writes. Other runs write only to a path that is given.
const defaultOut = "bench/report.md"

func main() {
	entrant.Main()
	command.Main(func(ctx context.Context, args []string) error { return run(ctx, args, os.Stdout, os.Stderr) })
}

// options are the command-line options.
type options struct {
	out, binary string
	hold, soak  time.Duration
	rounds      int
	quick       bool
	scenarios   []*scenario.Scenario
}

func read(args []string, stderr io.Writer) (options, error) {
	var names []string
	for _, s := range scenario.All(scenario.Options{}) {
		names = append(names, s.Name)
	}
	var o options
	var only, entrants string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.out, "out", "",
		"where to write the report; default "+defaultOut+" for a whole run, else the terminal")
	flags.StringVar(&o.binary, "pgdispatch", "../bin/pgdispatch", "the binary to measure, see `make build`")
	flags.DurationVar(&o.hold, "hold", scenario.DefaultHold, "how long scenario snapshot holds its snapshot")
	flags.DurationVar(&o.soak, "soak", scenario.DefaultSoak,
		"duration of scenario soak, which runs only if -only names it")
	flags.IntVar(&o.rounds, "rounds", 5, "how often the contestants of each scenario take turns")
	flags.BoolVar(&o.quick, "quick", false, "one short round of everything: checks that it works, not how fast")
	flags.StringVar(&only, "only", "", "scenarios to run, separated by commas: "+strings.Join(names, ", "))
	flags.StringVar(&entrants, "entrants", "", "a regular expression: measure only entrants with such a name")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 || o.rounds < 1 || o.hold < time.Second {
		return o, fmt.Errorf("bench takes only flags, at least one round, and a snapshot of at least a second: see -help")
	}
	if o.quick {
		o.rounds = 1
	}
	all := scenario.All(scenario.Options{Hold: o.hold, Soak: o.soak})
	o.scenarios = slices.DeleteFunc(slices.Clone(all),
		func(s *scenario.Scenario) bool { return s.Name == "soak" && !o.quick })
	if only != "" {
		o.scenarios = nil
		for name := range strings.SplitSeq(only, ",") {
			n := slices.Index(names, strings.TrimSpace(name))
			if n < 0 {
				return o, fmt.Errorf("there is no scenario %q; there are %s", name, strings.Join(names, ", "))
			}
			o.scenarios = append(o.scenarios, all[n])
		}
	}
	named, err := regexp.Compile(entrants)
	if err != nil {
		return o, fmt.Errorf("-entrants: %w", err)
	}
	for _, s := range o.scenarios {
		s.Entrants = slices.DeleteFunc(s.Entrants, func(e scenario.Entrant) bool { return !named.MatchString(e.Name) })
	}
	if o.out == "" && only+entrants == "" && !o.quick {
		o.out = defaultOut
	}
	return o, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := read(args, stderr)
	if err != nil {
		return err
	}
	r, err := measure(ctx, o, stderr)
	if err != nil {
		return err
	}
	r.Command = strings.TrimSpace("make build && go run -C test ./bench " + strings.Join(args, " "))
	if o.out != "" {
		err = r.Write(o.out)
	} else {
		_, err = fmt.Fprint(stdout, r.Markdown("benchmarks"))
	}
	for _, result := range r.Results {
		err = errors.Join(err, errors.Join(result.Errors...))
	}
	return err
}

// measure runs the scenarios one after another on one cluster.
func measure(ctx context.Context, o options, stderr io.Writer) (*report.Run, error) {
	r := &report.Run{Began: time.Now(), Rounds: o.rounds, Quick: o.quick}
	l, err := lab.Open(ctx, lab.Options{Binary: o.binary, Quick: o.quick})
	if err != nil {
		return nil, err
	}
	r.Machine, err = l.Look()
	if err == nil {
		r.Machine.Postgres, err = l.Version(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	say := func(format string, args ...any) { fmt.Fprintf(stderr, format+"\n", args...) }
	for _, s := range o.scenarios {
		r.Results = append(r.Results, s.Run(ctx, l, o.rounds, say))
	}
	r.Took = time.Since(r.Began)
	if ctx.Err() != nil {
		return nil, errors.Join(fmt.Errorf("interrupted: nothing is written"), l.Close())
	}
	return r, l.Close()
}
