// Command mutants removes the product's guards, one at a time, and checks that a named test fails without each.
//
//	go run -C test ./mutants                  # all of them, as a table; takes minutes
//	go run -C test ./mutants -only heartbeat  # mutants whose names contain this
//	go run -C test ./mutants -show            # with the tests' output: do they fail for the right reason?
//	go run -C test ./mutants -o mutants.md    # also writes the table to a Markdown file
//	go run -C test ./mutants -only lease -seeds 10000  # by seeds of the replica simulation, not by the named tests
//	go run -C test ./mutants -random 200 -seed 7  # changes that nobody chose instead; prints those that no test notices
//	go run -C test ./mutants -random 20 -seed 7 -only claim/schedule  # of one directory
//	go run -C test ./mutants -random 9 -only claim/claim.go:35  # of one line
//
// A mutant names a function in Go or embedded SQL, and replaces text in it. The go command reads the changed file
// through its -overlay flag.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pgdispatch/pgdispatch/test/internal/command"
)

// atOnce is how many mutants are tested at the same time. Each has a build, a test process and perhaps a Postgres.
const atOnce = 2

func main() {
	command.Main(func(ctx context.Context, args []string) error { return do(ctx, args, os.Stdout) })
}

func do(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(out)
	root := flags.String("root", "..", "the repository's `directory`")
	only := flags.String("only", "", "only mutants with this `text` in their names, or of this place with -random")
	path := flags.String("o", "", "also write the table to this Markdown `file`")
	show := flags.Bool("show", false, "also print the tests' output")
	random := flags.Int("random", 0, "instead of the table, test this `number` of changes that are made at random")
	seed := flags.Uint64("seed", 1, "which changes -random makes")
	seeds := flags.Int("seeds", 0, "run this `number` of seeds of the replica simulation instead of the named tests")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *seeds < 0 || *seeds > 0 && *random > 0 {
		return fmt.Errorf("-seeds is %d: it must be positive, and takes the place of -random", *seeds)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is no flag: flags begin with a dash, see -help", flags.Arg(0))
	}
	directory, err := filepath.Abs(*root)
	if err != nil {
		return fmt.Errorf("find the repository: %w", err)
	}
	if *random > 0 {
		p, err := open(directory)
		if err != nil {
			return err
		}
		return lab{product: p}.random(ctx, *random, *seed, *only, out)
	}
	chosen := named(all(), *only)
	if len(chosen) == 0 {
		return fmt.Errorf("no mutant has %q in its name: leave -only out for the whole table", *only)
	}
	if *seeds > 0 {
		if chosen = simulated(chosen); len(chosen) == 0 {
			return fmt.Errorf("the replica simulation executes no mutant that has %q in its name: leave -seeds out", *only)
		}
	}
	p, err := open(directory)
	if err != nil {
		return err
	}
	results, err := testAll(ctx, lab{p, *seeds}, chosen, out)
	if err != nil {
		return err
	}
	if *show {
		for _, r := range results {
			fmt.Fprintf(out, "\n%s: %s\n%s\n", r.mutant.name, r.verdict, tail(r.output))
		}
	}
	if *path != "" {
		if err := os.WriteFile(*path, []byte(page(results)), 0o644); err != nil {
			return fmt.Errorf("write the table: %w", err)
		}
	}
	return summary(results, out)
}

// all returns all mutants.
func all() []mutant {
	var list []mutant
	for _, part := range [][]mutant{
		leases, clocks, limits, plain, bursts, keys, gathering, afterErrors,
		memories, ambiguity, suspects, identity, workflowIDs, activities, gate, policy, ends, encoding, enqueuing, signals,
		roles, webPages, migrations, databases,
	} {
		list = append(list, part...)
	}
	return list
}

func named(list []mutant, text string) []mutant {
	var chosen []mutant
	for _, m := range list {
		if strings.Contains(m.name, text) {
			chosen = append(chosen, m)
		}
	}
	return chosen
}

// testAll runs the named tests without any mutant, then tests each mutant and prints a line for it as it ends. The
// results are in the order of the list.
func testAll(ctx context.Context, l lab, list []mutant, out io.Writer) ([]result, error) {
	began := time.Now()
	fmt.Fprintf(out, "the named tests without any mutant must be green ... ")
	if err := l.baseline(ctx, list); err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "they are, in %.0f s\n\n%s\n", time.Since(began).Seconds(), heading())
	results := make([]result, len(list))
	var workers sync.WaitGroup
	var printing sync.Mutex
	next := make(chan int)
	for range atOnce {
		workers.Go(func() {
			for n := range next {
				results[n] = l.test(ctx, list[n])
				printing.Lock()
				fmt.Fprintln(out, results[n].line())
				printing.Unlock()
			}
		})
	}
	for n := range list {
		next <- n
	}
	close(next)
	workers.Wait()
	return results, ctx.Err()
}

// summary prints the remedies, and returns an error if there are any.
func summary(results []result, out io.Writer) error {
	var wrong []string
	for _, r := range results {
		if r.verdict.pass() {
			continue
		}
		wrong = append(wrong, r.mutant.name)
		fmt.Fprintf(out, "\n%s: %s: %s\n%s\n", r.mutant.name, r.verdict, r.verdict.remedy(), tail(r.output))
	}
	if len(wrong) > 0 {
		return fmt.Errorf("%d of %d guards are not shown to be needed: %s",
			len(wrong), len(results), strings.Join(wrong, "; "))
	}
	fmt.Fprintf(out, "\nPASS: %d mutants, and a named test went red for each\n", len(results))
	return nil
}

// tail returns the end of a test's output, which contains the failure.
func tail(output string) string {
	const lines = 30
	all := strings.Split(strings.TrimSpace(output), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
