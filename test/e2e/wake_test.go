package e2e

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// Without a poll, a lost wake-up stays lost.
func TestNoWakeUpIsLostHoweverLongATransactionIsOpen(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	for range 3 {
		s.replica("PGDISPATCH_POLL_INTERVAL=1h", "PGDISPATCH_WORKERS=3").ready()
	}
	s.exec("update pgdispatch.workspaces set max_concurrent_workflows = 1000")

	const writers, transactions = 6, 25
	var g errgroup.Group
	for range writers {
		g.Go(func() error {
			for range transactions {
				if err := s.insertSlowly(rand.N(40*time.Millisecond), rand.N(60*time.Millisecond)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	s.eventually(func() bool { return s.count("status = 'COMPLETED'") == writers*transactions }, "all executions complete")
}

// insertSlowly inserts one row in a transaction that stays open for a while, then sleeps.
func (s *stack) insertSlowly(open, pause time.Duration) error {
	ctx := context.Background()
	tx, err := s.db.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx) //nolint:errcheck // after a commit it does nothing
	if _, err := tx.Exec(ctx, `insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id)
		select workspace_id, id from pgdispatch.workflow_definitions where workspace_id = $1
			and name = 'Echo'`, s.workspace["ENTERPRISE"]); err != nil {
		return err
	}
	<-time.After(open)
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	<-time.After(pause)
	return nil
}
