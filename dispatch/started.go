package dispatch

import (
	"golang.org/x/sync/errgroup"

	"github.com/pgdispatch/pgdispatch/claim"
)

// started is a hand-over whose workflow runs and whose claim is not ended yet. Its worker is free for another item; the lease
// is renewed until the claim is ended.
type started struct {
	claim.Settlement
	item  *claim.Item
	lease *lease
}

func (r *run) settlements() []claim.Settlement {
	all := make([]claim.Settlement, len(r.started))
	for n, s := range r.started {
		all[n] = s.Settlement
	}
	return all
}

// endStarted takes note of what a claim has settled in passing. What it did not find was lost.
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

// settleStarted has the settler end what no claim is about to take along.
func (r *run) settleStarted() {
	for _, s := range r.started {
		r.settler.requests <- settleRequest{s.Settlement, func(err error) {
			r.end(s, err)
			r.outcomes <- result{outcome: Started}
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
			r.Dispatched(claim.Execution{ID: s.item.ExecutionID, RunID: s.RunID, Namespace: s.item.Namespace})
		})
	}
}

// drain waits for hand-overs under way, once nothing is claimed any more, and gives their claims to the settler to end. It
// counts nothing, so it ends whatever state the claim loop is left in.
func (r *run) drain(workers *errgroup.Group) {
	ended := make(chan struct{})
	go func() {
		_ = workers.Wait() // they return no errors
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

// keep keeps what a hand-over has started until it is settled. It says whether there is something.
func (r *run) keep(done result) bool {
	if done.started != nil {
		r.started = append(r.started, done.started)
	}
	return done.started != nil
}
