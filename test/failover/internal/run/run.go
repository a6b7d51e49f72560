// Package run makes the events of a run happen, one after another, in one cluster for each mode.
package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/pgdispatch/pgdispatch/test/failover/internal/audit"
	"github.com/pgdispatch/pgdispatch/test/failover/internal/lab"
)

const (
	// calm is how long the load runs before the first event of a cluster under load and after each event.
	calm = 3 * time.Second
	// flowing is how many inserts must be acknowledged after an event before the calm begins.
	flowing = 20
)

// Mode is a way to set up a cluster and its replicas.
type Mode struct {
	// Name identifies it.
	Name string
	// Sync is the cluster's synchronous_mode. Hosts means that the replicas have a list of hosts, not the proxy.
	Sync, Hosts bool
}

// hostsLimit replaces Options.Limit for replicas with a list of hosts. Nobody tells them who is primary:
// they stay with a former primary until it is gone, and try a frozen one for their connection timeout of 5 s.
const hostsLimit = 2*apart + 5*time.Second

// limit returns how long starts may stay away in this mode once acknowledgements are back.
func (m Mode) limit(proxied time.Duration) time.Duration {
	if m.Hosts {
		return max(proxied, hostsLimit)
	}
	return proxied
}

// Modes are all modes.
var Modes = []Mode{
	{Name: "sync", Sync: true}, {Name: "async"},
	{Name: "sync-hosts", Sync: true, Hosts: true}, {Name: "async-hosts", Hosts: true},
}

// Options say what to run.
type Options struct {
	// Pgdispatch and Devstack are the paths of the binaries.
	Pgdispatch, Devstack string
	// Seed decides the order of events.
	Seed uint64
	// Events is how many there are in all modes together.
	Events int
	// Modes are the modes to run.
	Modes []Mode
	// Limit is how long starts may stay away once acknowledgements are back, for replicas that connect to the proxy.
	Limit time.Duration
	// Rate is how many items are inserted per second.
	Rate float64
	// Keep keeps the directory with all logs.
	Keep bool
	// Log is where progress is printed.
	Log io.Writer
}

// Result is what a mode's cluster showed.
type Result struct {
	Mode
	audit.Findings
	// Violations are what must not have happened.
	Violations []string
	// Stuck is how often Patroni had to be helped: see cluster.AwaitHealthy.
	Stuck int
}

// Outcome is what a run showed.
type Outcome struct {
	Seed    uint64
	Limit   time.Duration
	Length  time.Duration
	Results []Result
}

// OK reports whether nothing happened that must not.
func (o *Outcome) OK() bool {
	for _, r := range o.Results {
		if len(r.Violations) > 0 {
			return false
		}
	}
	return true
}

// Do runs all events.
func Do(ctx context.Context, o Options) (outcome *Outcome, err error) {
	dir, err := os.MkdirTemp("", "pgdispatch-failover-")
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // the servers' user must reach its own part
		return nil, fmt.Errorf("make directory: %w", err)
	}
	defer func() {
		if o.Keep || err != nil || !outcome.OK() {
			_, _ = fmt.Fprintln(o.Log, "the logs are in", dir)
			return
		}
		err = os.RemoveAll(dir)
	}()

	began := time.Now()
	_, _ = fmt.Fprintf(o.Log, "seed %d, %d events\n", o.Seed, o.Events)
	outcome = &Outcome{Seed: o.Seed, Limit: o.Limit}
	plans := Plan(o.Seed, o.Events, len(o.Modes))
	for n, mode := range o.Modes {
		if len(plans[n]) == 0 {
			continue
		}
		r := &runner{Options: o, mode: mode, dir: filepath.Join(dir, mode.Name)}
		if err := os.Mkdir(r.dir, 0o755); err != nil {
			return outcome, fmt.Errorf("make directory of %s: %w", mode.Name, err)
		}
		record, err := r.run(ctx, plans[n])
		if err != nil {
			return outcome, fmt.Errorf("%s: %w", mode.Name, err)
		}
		result := Result{Mode: mode, Findings: audit.Check(*record), Stuck: r.lab.Cluster.Stuck}
		result.Violations = result.Findings.Violations(mode.Sync, mode.limit(o.Limit))
		outcome.Results = append(outcome.Results, result)
	}
	outcome.Length = time.Since(began)
	return outcome, nil
}

// Plan returns the names of the events of each mode. The first of each is AtOnce. The others go round all kinds, in an
// order that the seed decides, so that each kind is as frequent as any other.
func Plan(seed uint64, events, modes int) [][]string {
	random := rand.New(rand.NewPCG(seed, 0))
	plans := make([][]string, modes)
	var round []int
	for n := range events {
		plan := &plans[n%modes]
		if len(*plan) == 0 {
			*plan = append(*plan, AtOnce)
			continue
		}
		if len(round) == 0 {
			round = random.Perm(len(kinds))
		}
		*plan = append(*plan, kinds[round[0]].name)
		round = round[1:]
	}
	return plans
}

// runner runs one mode.
type runner struct {
	Options
	mode   Mode
	dir    string
	lab    *lab.Lab
	record audit.Record
}

func (r *runner) run(ctx context.Context, plan []string) (record *audit.Record, err error) {
	r.record.Sync = r.mode.Sync
	r.lab, err = lab.Start(ctx, lab.Options{
		Pgdispatch: r.Pgdispatch, Devstack: r.Devstack, Dir: r.dir, Sync: r.mode.Sync, Hosts: r.mode.Hosts, Rate: r.Rate,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.lab.Close()) }()

	for n, name := range plan {
		_, _ = fmt.Fprintf(r.Log, "%s %s: %s\n", time.Now().Format(time.TimeOnly), r.mode.Name, name)
		do := r.under(name)
		if n == 0 {
			do = r.atOnce
		}
		event := audit.Event{Kind: name, Begin: time.Now()}
		if err := do(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if err := r.settle(ctx); err != nil {
			return nil, fmt.Errorf("after %s: %w", name, err)
		}
		event.End = time.Now()
		r.record.Events = append(r.record.Events, event)
	}
	return &r.record, r.lab.Finish(ctx, &r.record)
}

// atOnce creates the schema and switches over at once, while the replicas start.
func (r *runner) atOnce(ctx context.Context) error {
	if err := r.lab.Migrate(ctx); err != nil {
		return err
	}
	switched := make(chan error, 1)
	go func() { switched <- r.lab.Cluster.Switchover(ctx) }()
	if err := errors.Join(r.lab.StartReplicas(), <-switched); err != nil {
		return err
	}
	return r.lab.Load(ctx)
}

// under returns what makes a kind of event happen under load.
func (r *runner) under(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, k := range kinds {
			if k.name != name {
				continue
			}
			leader := r.lab.Cluster.Leader(ctx)
			if leader == nil {
				return errors.New("there is no primary")
			}
			return k.do(ctx, r.lab.Cluster, leader)
		}
		return fmt.Errorf("there is no event %q", name)
	}
}

// settle waits until the cluster is healthy and inserts are acknowledged, and a while longer.
func (r *runner) settle(ctx context.Context) error {
	if err := r.lab.Cluster.AwaitHealthy(ctx); err != nil {
		return err
	}
	if err := r.lab.Writer.AwaitAcknowledged(ctx, time.Now(), flowing); err != nil {
		return err
	}
	if err := pause(ctx, calm); err != nil {
		return err
	}
	return r.lab.Alive()
}
