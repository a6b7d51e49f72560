package sql_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/sql"
)

// claimRow is an item as returned by a claim; nil fields are absent.
type claimRow struct {
	ID                          *int64
	LeaseToken                  *int64
	ExecutionID                 *string
	WorkspaceID                 *string
	WorkflowDefinitionID        *string
	WorkflowDefinitionVersionID *string
	Namespace                   *string
	WorkflowType, TaskQueue     *string
	Input, Kind                 string
	ExecutionTimeout            *time.Duration
	NodeIDs                     *string
	Params, Traceparent         *string
	AttemptCount, FailureCount  *int
	MaxAttempts                 *int
	Unanswered                  *bool `db:"outcome_unknown"`
	UnansweredFor               *time.Duration
	Problem                     *string
	Waited                      *time.Duration
}

type batch struct {
	items                []claimRow
	more, capped, paused bool
	lookAgainIn          *time.Duration
	unannounced          int
	atCapacity           string // a JSON array; "": none
}

func (b batch) ids() []int64 {
	ids := []int64{}
	for _, item := range b.items {
		ids = append(ids, *item.ID)
	}
	return ids
}

func (b batch) tokens() []int64 {
	tokens := []int64{}
	for _, item := range b.items {
		tokens = append(tokens, *item.LeaseToken)
	}
	return tokens
}

func (f fixture) tryClaim(atMost int) (batch, error) { return f.tryClaimBy("replica-1", atMost) }

func (f fixture) tryClaimBy(owner string, atMost int) (batch, error) {
	return f.tryClaimAround(owner, atMost, nil)
}

// tryClaimAround claims like a replica whose memory lasts as long as the test, with limits per namespace. Definitions
// without a namespace use the limit of "default".
func (f fixture) tryClaimAround(owner string, atMost int, limits map[string]int) (batch, error) {
	r := f.replica(owner)
	r.Lock()
	defer r.Unlock()
	r.store.Pool = f.db
	f.exec("select pgdispatch.requeue_expired(1000)") // as a sweep does, which waits for the moment
	holding := one[int](f, `select count(*) from pgdispatch.workflow_execution_queue
		where stage in ('HOLDS', 'DOUBT') and lease_token >= (select leased_from from pgdispatch.mark_trim)
			and claimed_by = $1 and status = 'CLAIMED' and lease_expires_at > clock_timestamp()`, owner)
	answer, _, err := r.store.SettleAndClaim(f.t.Context(), nil,
		claim.Wanted{AtMost: atMost, Holding: holding, Look: true, Quiet: true, Namespaces: limits})
	if err != nil {
		return batch{}, err
	}
	b := batch{more: answer.More, capped: answer.Capped, paused: answer.Paused, unannounced: answer.Unannounced}
	if answer.LookAgainIn >= 0 {
		b.lookAgainIn = &answer.LookAgainIn
	}
	if len(answer.AtCapacity) > 0 {
		full := must(json.Marshal(answer.AtCapacity)).in(f.t)
		b.atCapacity = string(full)
	}
	for _, item := range answer.Items {
		b.items = append(b.items, rowOf(item))
	}
	return b, nil
}

func rowOf(i claim.Item) claimRow {
	nodes, params := string(i.NodeIDs), string(i.Params)
	return claimRow{
		ID: &i.ID, LeaseToken: &i.Token, ExecutionID: &i.ExecutionID, WorkspaceID: &i.WorkspaceID,
		WorkflowDefinitionID: &i.WorkflowDefinitionID, WorkflowDefinitionVersionID: some(i.WorkflowDefinitionVersionID),
		Namespace: some(i.Namespace), WorkflowType: some(i.WorkflowType), TaskQueue: some(i.TaskQueue),
		Input: string(i.Input), Kind: string(i.Kind), ExecutionTimeout: some(i.ExecutionTimeout),
		NodeIDs: some(nodes), Params: &params, Traceparent: some(i.Traceparent),
		AttemptCount: &i.AttemptCount, FailureCount: &i.FailureCount, MaxAttempts: some(i.MaxAttempts),
		Unanswered: &i.Unanswered, UnansweredFor: &i.UnansweredFor, Problem: some(string(i.Problem)),
		Waited: &i.Waited,
	}
}

// some returns a pointer to a value, or nil for the zero value.
func some[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

// forget clears the memory of all replicas, as after a restart.
func (f fixture) forget() { f.replicas.Clear() }

func (f fixture) replica(owner string) *replica {
	r, _ := f.replicas.LoadOrStore(owner, &replica{store: claim.Store{Owner: owner, Lease: lease, Namespace: "default"}})
	return r.(*replica)
}

// claimers runs claims of n owners at the same time. Each calls next with its number of calls so far, which claims and
// returns whether to go on.
func (f fixture) claimers(n int, next func(owner string, calls int) (more bool, err error)) {
	var all sync.WaitGroup
	for k := range n {
		all.Go(func() {
			more, err := true, error(nil)
			for calls := 0; more && err == nil; calls++ {
				more, err = next(fmt.Sprint("replica-", k), calls)
			}
			if err != nil {
				f.t.Error(err)
			}
		})
	}
	all.Wait()
}

// claimAll claims as a dispatcher does: again, as long as workers are free and more items are known.
func (f fixture) claimAll(atMost int) batch { return f.claimAllAround(atMost, nil) }

func (f fixture) claimAllAround(atMost int, limits map[string]int) (all batch) {
	for range 100 {
		b := must(f.tryClaimAround("replica-1", atMost-len(all.items), limits)).in(f.t)
		b.items = append(all.items, b.items...)
		if all = b; len(all.items) >= atMost || !b.more || b.capped {
			return all
		}
	}
	f.t.Fatal("a dispatcher would claim for ever")
	return all
}

func (f fixture) claim(atMost int) batch { return must(f.tryClaim(atMost)).in(f.t) }

func (f fixture) claimBy(owner string, atMost int) batch {
	return must(f.tryClaimBy(owner, atMost)).in(f.t)
}

func repeated[T any](n int, value T) []T {
	values := make([]T, n)
	for i := range values {
		values[i] = value
	}
	return values
}

// dispatched settles a batch as dispatched. It returns the IDs that changed state.
func (f fixture) dispatched(b batch) []int64 {
	return all[int64](f, sql.Text("dispatched"), b.ids(), b.tokens(), repeated(len(b.items), "run"), "replica-1")
}

// heartbeat renews a batch. It returns the IDs of the leases that are kept.
func (f fixture) heartbeat(b batch) []int64 {
	return all[int64](f, sql.Text("heartbeat"), b.ids(), b.tokens(), lease)
}

func (f fixture) cancel(id int64) bool { return one[bool](f, sql.Text("cancel"), f.execution(id)) }

// oneRunning returns a FREE workspace's item whose workflow runs.
func (f fixture) oneRunning() int64 {
	id := f.item(f.tenant("FREE"))
	f.dispatched(f.claim(1))
	return id
}

// release releases a batch; unknown: a start was sent and not answered.
func (f fixture) release(b batch, unknown bool) []int64 {
	return all[int64](f, sql.Text("release"), b.ids(), b.tokens(), repeated(len(b.items), ""),
		repeated(len(b.items), time.Duration(0)), repeated(len(b.items), unknown))
}

func (f fixture) finish(id int64, outcome string) bool {
	return one[bool](f, sql.Text("finish"), f.execution(id), outcome, nil, nil)
}

// expire expires the leases of claimed items, as if a minute had passed.
func (f fixture) expire(ids ...int64) {
	f.exec(`update pgdispatch.workflow_execution_queue
		set claimed_at = clock_timestamp() - interval '2 minutes', lease_expires_at = clock_timestamp() - interval '1 minute'
		where id = any ($1) and status = 'CLAIMED'`, ids)
}

func (f fixture) maxClaims(n int) {
	f.exec(sql.Text("settings_set"), fmt.Sprintf(`{"max_claims": %d}`, n), "me")
}
