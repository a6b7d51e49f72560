package run

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/pgdispatch/pgdispatch/chaos/internal/lab"
	"github.com/pgdispatch/pgdispatch/chaos/internal/proxy"
)

// Stay is the name of the faults that stay.
const Stay = "faults-that-stay"

const (
	// livenessLimit is how long the core may take from the moment that all other faults stay: the leases of the two that
	// are lost, and the work.
	livenessLimit = 25 * time.Second
	// livenessExtra is how much longer is waited before it counts as never.
	livenessExtra = 5 * time.Second
	// runningMillis is how long the workflows run that are under way when it begins, and startedAfter is when they are.
	runningMillis = 2000
	startedAfter  = 500 * time.Millisecond
	// latency is that of the core's own connection to the database.
	latency, latencyJitter = 5 * time.Millisecond, 10 * time.Millisecond
)

// liveness lets one replica be frozen for good, the one that has started most be cut off from Temporal, and the third far
// from the database, and asks that everything that waits or runs ends all the same: faults that heal by chance hide what
// never would.
func liveness(ctx context.Context, l *lab.Lab, out *Outcome) error {
	frozen, cut, far, err := roles(ctx, l)
	if err != nil {
		return err
	}
	l.Logf("faults that stay: replica %d is frozen, replica %d is cut off from Temporal, replica %d is 5 to 15 ms away from Postgres", frozen.N, cut.N, far.N)
	began := time.Now()
	err = frozen.Process().Signal(syscall.SIGSTOP)
	cut.Temporal.Set(proxy.Policy{Hole: true})
	far.Postgres.Set(proxy.Policy{Delay: latency, Jitter: latencyJitter})
	err = errors.Join(err, l.Load.Drain(ctx, livenessLimit+livenessExtra))
	out.Liveness, out.LivenessLimit = time.Since(began), livenessLimit
	if err != nil {
		var open int
		var oldest []string
		if readErr := l.Row(ctx, "open_items", nil, &open, &oldest); readErr == nil {
			l.Logf("%d items are open, among them %q", open, oldest)
		}
	}
	l.Logf("the core took %.1f s (limit %.0f)", out.Liveness.Seconds(), livenessLimit.Seconds())
	l.Load.Pause(false)
	stalled := frozen.Process().Signal(syscall.SIGCONT)
	for _, r := range l.Replicas {
		r.Heal()
	}
	if err != nil && ctx.Err() == nil {
		l.Logf("%v", err) // it counts as a figure that was missed
		err = nil
	}
	return errors.Join(err, stalled)
}

// roles has workflows run, and gives the replica that started the last of them to the partition: it watches them.
func roles(ctx context.Context, l *lab.Lab) (frozen, cut, far *lab.Replica, err error) {
	for _, w := range l.Load.Workspaces {
		if w.Limit >= 5 {
			if err := l.Load.InsertMany(ctx, w, w.Limit, runningMillis); err != nil {
				return nil, nil, nil, err
			}
		}
	}
	var pid string
	if err := errors.Join(lab.Sleep(ctx, startedAfter), l.Row(ctx, "last_claimer", nil, &pid)); err != nil {
		return nil, nil, nil, err
	}
	n := max(slices.IndexFunc(l.Replicas, func(r *lab.Replica) bool { return r.PID() == pid }), 0)
	at := func(i int) *lab.Replica { return l.Replicas[i%len(l.Replicas)] }
	return at(n + 1), at(n), at(n + 2), nil
}
