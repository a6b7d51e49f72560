package run

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/internal/proxy"
)

// Stay is the name of the faults that stay.
const Stay = "faults-that-stay"

const (
	// waves is how many workflows each slot of each workspace gets, one after another. running is how long each
	// workflow takes.
	waves, running = 2, 2 * time.Second
	// startedAfter is when the faults begin. By then the first wave is running.
	startedAfter = 500 * time.Millisecond
	// startingAll is how long the core takes to start one workflow per slot with all of its workers.
	startingAll = 2 * time.Second
	// livenessLimit bounds the time that the core takes, counted from the moment when all other faults stay. What the
	// two lost replicas held or watched is free when their leases have expired. All waves may still be to come in such
	// a slot, and the last of them may have been the probe of the replica that is cut off.
	livenessLimit = lab.Lease + time.Second + waves*running + startingAll + lab.StartTimeout + lab.PollInterval + lostTask
	// lostTask is how long Temporal waits for a worker that took a workflow task and never answered.
	lostTask = 10 * time.Second
	// calm is the rest before the phase, with nothing waiting. It lets a replica that Temporal has slowed down return
	// to full speed.
	calm = 7 * time.Second
	// livenessExtra is how much longer the harness waits before the result counts as never.
	livenessExtra = 15 * time.Second
	// latency and latencyJitter apply to the core's connection to the database.
	latency, latencyJitter = 5 * time.Millisecond, 10 * time.Millisecond
)

// liveness freezes one replica for good, cuts the one that has started most off from Temporal, and delays the third
// one's connection to the database. It requires that everything waiting or running ends nevertheless. Faults that heal
// by themselves would hide work that never ends.
func liveness(ctx context.Context, l *lab.Lab, out *Outcome) error {
	frozen, cut, far, err := roles(ctx, l)
	if err != nil {
		return err
	}
	l.Logf("faults that stay: replica %d is frozen, replica %d is cut off from Temporal, replica %d is 5 to 15 ms away "+
		"from Postgres", frozen.N, cut.N, far.N)
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
		l.Logf("%v", err) // counted as a missed figure
		err = nil
	}
	return errors.Join(err, stalled)
}

// roles fills every slot, with as much work waiting behind, and nothing else. Work left over from other faults would
// take as long as its workspaces' limits impose. The replica that claimed last is the one to be cut off, because it
// watches that work.
func roles(ctx context.Context, l *lab.Lab) (frozen, cut, far *lab.Replica, err error) {
	if err := errors.Join(l.Load.Drain(ctx, quiescence), lab.Sleep(ctx, calm)); err != nil {
		return nil, nil, nil, err
	}
	for _, w := range l.Load.Workspaces {
		if err := l.Load.InsertMany(ctx, w, waves*w.Guaranteed(), int(running.Milliseconds())); err != nil {
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
