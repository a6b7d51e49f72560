package dispatch

import (
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// started is a dispatch whose workflow runs and whose claim has not ended yet. Its worker is free for another item. The
// lease is renewed until the claim ends.
type started struct {
	claim.Settlement
	item  *claim.Item
	lease *lease
}

// settleGather is how long a started item waits for others that are settled in the same statement.
const settleGather = 10 * time.Millisecond

// gathers reports whether started items wait for others, to be settled by a statement of their own. Otherwise, the next
// claim settles them first, or the settler does at once: if half of the workers are busy, the claim needs their leases;
// and if W is nearly used up, other replicas do.
func (r *run) gathers() bool { return len(r.started) > 0 && r.roomy && 2*r.idle >= r.Workers }

// gathersUntil returns when started items stop waiting for others; zero if they do not wait.
func (r *run) gathersUntil() time.Time {
	if r.gathers() {
		return r.settleAt
	}
	return time.Time{}
}

// freeWorkers returns how many items a claim may take now.
func (r *run) freeWorkers() int {
	if r.gathers() {
		return r.idle
	}
	return r.idle + len(r.started)
}

func (r *run) settlements() []claim.Settlement {
	all := make([]claim.Settlement, len(r.started))
	for n, s := range r.started {
		all[n] = s.Settlement
	}
	return all
}

// endStarted records which started items a claim has settled. Those missing from settled were lost.
func (r *run) endStarted(settled []int64) {
	ended := make(map[int64]bool, len(settled))
	for _, id := range settled {
		ended[id] = true
	}
	for _, s := range r.started {
		var err error
		if !ended[s.ID] {
			err = claim.ErrLost
		}
		r.end(s, err)
		r.idle++
	}
	r.started = r.started[:0]
}

// settleStarted passes to the settler what no claim is about to settle.
func (r *run) settleStarted() {
	for _, s := range r.started {
		r.settler.requests <- settleRequest{s.Settlement, func(err error) {
			r.end(s, err)
			r.outcomes <- result{outcome: temporal.Started}
		}}
	}
	r.started = r.started[:0]
}

func (r *run) end(s *started, err error) {
	r.held.release(s.lease)
	switch {
	case err != nil:
		r.lost(s.item, s.Verb, err)
	case r.Dispatched != nil:
		_ = contained(r.Log, "report of a dispatched execution", func() {
			r.Dispatched(temporal.Execution{ID: s.item.ExecutionID, RunID: s.RunID, Namespace: s.item.Namespace})
		})
	}
}

// drain waits for dispatches in progress once claiming has stopped, and passes their claims to the settler. It keeps no
// counts, so it ends regardless of the claim loop's state.
func (r *run) drain(workers *errgroup.Group) {
	ended := make(chan struct{})
	go func() {
		_ = workers.Wait() // always nil
		close(ended)
	}()
	for under := true; under; {
		r.settleStarted()
		select {
		case done := <-r.outcomes:
			r.keep(done)
		case <-ended:
			under = false
		}
	}
	for {
		select {
		case done := <-r.outcomes:
			r.keep(done)
		default:
			r.settleStarted()
			return
		}
	}
}

// keep keeps a started item until it is settled. It reports whether there is one.
func (r *run) keep(done result) bool {
	if done.started != nil {
		if len(r.started) == 0 {
			r.settleAt = time.Now().Add(settleGather)
		}
		if done.started.item.Awaited {
			r.settleAt = time.Now() // its end is watched from then on
		}
		r.started = append(r.started, done.started)
	}
	return done.started != nil
}
