package run

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/proxy"
)

// Stay is the name of the faults that stay.
const Stay = "faults-that-stay"

const (
	// waves is how many workflows there are to each slot of each workspace, one after another, and running how long each takes.
	waves, running = 2, 2 * time.Second
	// startedAfter is when the first wave runs, and the faults come.
	startedAfter = 500 * time.Millisecond
	// startingAll is how long the core takes to start as many workflows as there are slots, with all of its workers.
	startingAll = 2 * time.Second
	// livenessLimit is how long the core may take from the moment that all other faults stay. What the two that are lost held or
	// watched is free when their leases are over; then all waves may be still to come in such a slot, and the last of them may have
	// been the probe of the one that is cut off.
	livenessLimit = lab.Lease + time.Second + waves*running + startingAll + lab.StartTimeout + lab.PollInterval
	// calm is how long nothing waits before it: a replica that Temporal has slowed down is at full speed again by then.
	calm = 7 * time.Second
	// livenessExtra is how much longer is waited before it counts as never.
	livenessExtra = 15 * time.Second
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

// roles has every slot used and as much wait behind, and nothing else: what happens to wait after other faults takes as long as
// its workspaces' limits have it take. The replica that started the last of it is given to the partition: it watches it.
func roles(ctx context.Context, l *lab.Lab) (frozen, cut, far *lab.Replica, err error) {
	if err := errors.Join(l.Load.Drain(ctx, quiescence), lab.Sleep(ctx, calm)); err != nil {
		return nil, nil, nil, err
	}
	for _, w := range l.Load.Workspaces {
		if err := l.Load.InsertMany(ctx, w, waves*w.Limit, int(running.Milliseconds())); err != nil {
			return nil, nil, nil, err
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
