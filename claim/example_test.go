package claim_test

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgdispatch/pgdispatch/claim"
)

func ExampleStore() {
	var pool *pgxpool.Pool

	store := &claim.Store{Pool: pool, Owner: "replica_1", Lease: 30 * time.Second}
	handOver := func(ctx context.Context) error {
		batch, err := store.Claim(ctx, 10)
		if err != nil {
			return err
		}
		var done []claim.Settlement
		for _, item := range batch.Items {
			// Start item.WorkflowType as item.WorkflowID() on item.TaskQueue.
			done = append(done, claim.Settlement{ID: item.ID, Token: item.Token, RunID: "from Temporal"})
		}
		ended, err := store.Settle(ctx, claim.Dispatched, done)
		if err == nil && len(ended) < len(done) {
			return claim.ErrLost // missing prerequisites
		}
		return err
	}
	_ = handOver
}
