package main

import (
	"context"
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
)

// presence renews this replica's presence, so that others leave its watches alone, and reports its state for operators.
func (r *replica) presence(ctx context.Context) error {
	pause := time.Second // the first report precedes listening, so renew it soon
	for {
		if err := r.store.Alive(ctx, claim.Presence{Version: buildVersion(), Workers: r.workers, State: r.state()}); err != nil && ctx.Err() == nil {
			r.log.WarnContext(ctx, "Cannot renew this replica's presence", "error", err)
		}
		r.noteStarts(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(min(r.lease/3, pause)):
			pause = presenceInterval
		}
	}
}

func (r *replica) state() claim.ReplicaState {
	state := r.pulse.State()
	if r.listener != nil {
		connected := r.listener.Connected()
		state.Listening, state.OnDuty = &connected, r.gate.OnDuty()
	}
	return state
}

// noteStarts adds the starts since the last call to the current minute's statistics. If the database's answer is lost,
// they may be counted twice.
func (r *replica) noteStarts(ctx context.Context) {
	waits := r.pulse.Take()
	if len(waits) == 0 {
		return
	}
	if err := r.store.NoteStarts(ctx, waits); err != nil {
		r.pulse.GiveBack(waits)
		r.log.DebugContext(ctx, "Cannot note what was started", "error", err)
	}
}
