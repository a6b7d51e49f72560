package sql_test

import (
	"fmt"
	"sync"
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql"
)

// batch is the answer of a claim.
type batch struct{ claim.Batch }

func (b batch) ids() []int64 {
	ids := []int64{}
	for _, item := range b.Items {
		ids = append(ids, item.ID)
	}
	return ids
}

func (b batch) tokens() []int64 {
	tokens := []int64{}
	for _, item := range b.Items {
		tokens = append(tokens, item.Token)
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
	holding := f.count(`workflow_execution_queue
		where stage in ('HOLDS', 'DOUBT') and lease_token >= (select leased_from from pgdispatch.mark_trim)
			and claimed_by = $1 and status = 'CLAIMED' and lease_expires_at > clock_timestamp()`, owner)
	answer, _, err := r.store.SettleAndClaim(f.t.Context(), nil,
		claim.Wanted{AtMost: atMost, Holding: holding, Look: true, Quiet: true, Namespaces: limits})
	return batch{answer}, err
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
		b := must.Get(f.tryClaimAround("replica-1", atMost-len(all.Items), limits)).In(f.t)
		b.Items = append(all.Items, b.Items...)
		if all = b; len(all.Items) >= atMost || !b.More || b.Capped {
			return all
		}
	}
	f.t.Fatal("a dispatcher would claim for ever")
	return all
}

func (f fixture) claim(atMost int) batch { return must.Get(f.tryClaim(atMost)).In(f.t) }

func (f fixture) claimBy(owner string, atMost int) batch {
	return must.Get(f.tryClaimBy(owner, atMost)).In(f.t)
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
	return all[int64](f, sql.Text("dispatched"), b.ids(), b.tokens(), repeated(len(b.Items), "run"), "replica-1")
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
	return all[int64](f, sql.Text("release"), b.ids(), b.tokens(), repeated(len(b.Items), ""),
		repeated(len(b.Items), time.Duration(0)), repeated(len(b.Items), unknown), repeated(len(b.Items), false),
		repeated(len(b.Items), false))
}

// failsAlone releases a batch whose starts failed while others were accepted; sent: without an answer.
func (f fixture) failsAlone(b batch, why string, delay time.Duration, sent bool) []int64 {
	return all[int64](f, sql.Text("release"), b.ids(), b.tokens(), repeated(len(b.Items), why),
		repeated(len(b.Items), delay), repeated(len(b.Items), sent), repeated(len(b.Items), true),
		repeated(len(b.Items), false))
}

// notFound releases a batch whose workflows Temporal does not find although the items are to fail.
func (f fixture) notFound(b batch) []int64 {
	return all[int64](f, sql.Text("release"), b.ids(), b.tokens(), repeated(len(b.Items), ""),
		repeated(len(b.Items), 10*time.Second), repeated(len(b.Items), true), repeated(len(b.Items), false),
		repeated(len(b.Items), true))
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
