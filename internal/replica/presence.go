package replica

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
)

// startsDelay is how long a start waits to be reported with those that follow it. It is capped at a third of the lease.
const startsDelay = time.Second

// presence renews this replica's presence, so that others leave its watches alone, and reports its state for operators:
// every presenceInterval, and startsDelay after a start, but no more often than that.
func (r *replica) presence(ctx context.Context) error {
	var reported operate.ReplicaState
	changed := func() bool { return differ(reported, r.state()) }
	return reports(ctx, r.telemetry.Started(), r.Lease/3, changed, func() {
		reported = r.state()
		if err := r.alive(ctx); err != nil && ctx.Err() == nil {
			r.log.WarnContext(ctx, "Cannot send this replica's heartbeat", "error", err)
		}
		r.noteStarts(ctx)
	})
}

// reports calls report at once, soon after each element of started and each change, and at the intervals of presence,
// capped at most.
func reports(ctx context.Context, started <-chan struct{}, most time.Duration, changed func() bool,
	report func()) error {
	pause := startsDelay // the first report precedes listening, so renew it soon
	for {
		report()
		for waits := min(most, pause); waits > 0; waits -= startsDelay {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(min(waits, startsDelay)):
				if !changed() {
					continue
				}
			case <-started:
				select {
				case <-ctx.Done():
					return nil
				case <-time.After(min(most, startsDelay)):
				}
			}
			break
		}
		pause = presenceInterval
	}
}

// differ reports whether what operators see first has changed.
func differ(a, b operate.ReplicaState) bool {
	return a.BreakerOpen != b.BreakerOpen || a.BreakerCause != b.BreakerCause || a.CodecAway != b.CodecAway ||
		a.PausedNamespaces != b.PausedNamespaces ||
		a.NoActivities != b.NoActivities || a.StartsPerSecond != b.StartsPerSecond || a.OnDuty != b.OnDuty ||
		!slices.Equal(a.Failing, b.Failing) || postgres.OrZero(a.Listening) != postgres.OrZero(b.Listening)
}

func (r *replica) state() operate.ReplicaState {
	state := r.telemetry.State()
	if why := r.temporalAway(); state.BreakerOpen && why != nil {
		state.BreakerCause = why.Error()
	}
	state.BreakerCause, state.CodecAway = postgres.Clean(state.BreakerCause), r.codec.Failure() != nil
	if r.Codec.Endpoint != "" {
		sum := sha256.Sum256([]byte(r.Codec.Endpoint))
		state.Codec = hex.EncodeToString(sum[:4])
	}
	state.Failing = r.upkeep.names()
	state.NoActivities = r.temporal.NoActivities()
	if r.listener != nil {
		connected := r.listener.Connected()
		state.Listening, state.OnDuty = &connected, r.gate.OnDuty()
	}
	return state
}

// alive records that this replica is alive, for one lease duration from now, and its state.
func (r *replica) alive(ctx context.Context) error {
	state, err := json.Marshal(r.state())
	if err != nil {
		return fmt.Errorf("renew replica: %w", err)
	}
	return postgres.Exec(ctx, r.database, "renew replica", sql.Text("replica_alive"),
		r.name, r.version, r.Workers, r.Lease, postgres.OrNull(r.namespace), string(state))
}

// noteStarts adds the starts since the last call to the current minute's statistics. If the database's answer is lost,
// they may be counted twice.
func (r *replica) noteStarts(ctx context.Context) {
	waits := r.telemetry.Take()
	var err error
	if len(waits.Due) > 0 {
		if err = postgres.Exec(ctx, r.database, "record start statistics", sql.Text("activity_note"), waits.Due.Total(),
			[]int64(waits.Due), []int64(waits.Startable)); err == nil {
			waits.Due, waits.Startable = nil, nil
		}
	}
	if err == nil {
		if err = r.noteWorkspaces(ctx, waits.Workspaces); err == nil {
			return
		}
	}
	r.telemetry.GiveBack(waits)
	r.log.DebugContext(ctx, "Cannot record start statistics", "error", err)
}

// noteWorkspaces adds starts to the statistics of their workspaces.
func (r *replica) noteWorkspaces(ctx context.Context, workspaces map[string]operate.WorkspaceStarts) error {
	if len(workspaces) == 0 {
		return nil
	}
	var ids []string
	var started []int
	var waited, longest []int64
	for id, starts := range workspaces {
		ids, started = append(ids, id), append(started, starts.Started)
		waited, longest = append(waited, starts.Waited.Milliseconds()), append(longest, starts.Longest.Milliseconds())
	}
	return postgres.Exec(ctx, r.database, "record starts of workspaces", sql.Text("workspace_activity_note"), ids, started,
		waited, longest)
}

// releaseOwned releases all items that are still leased to this replica and returns their number. Call it when no
// worker holds an item.
func (r *replica) releaseOwned(ctx context.Context) (int, error) {
	ids, err := postgres.Values[int64](ctx, r.database, "release owned items", sql.Text("release_owned"), r.name)
	return len(ids), err
}

// gone records that this replica has stopped, so that other replicas can adopt its executions at once.
func (r *replica) gone(ctx context.Context) error {
	return postgres.Exec(ctx, r.database, "remove replica", sql.Text("replica_gone"), r.name)
}
