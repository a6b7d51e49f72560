package main

import (
	"context"
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
)

// presence says that this replica lives, so that others leave its watches alone, and how it is, for whoever looks.
func (r *replica) presence(ctx context.Context) error {
	pause := time.Second // what it said at first is from before it listened
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

// noteStarts adds to the minute what was started since the last time. A note whose answer is lost may count twice.
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
