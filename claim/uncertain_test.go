package claim

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// cutter is a Database that loses the answers to batches after their commit.
type cutter struct{ Database }

type cutResults struct{ pgx.BatchResults }

func (c cutter) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	return cutResults{c.Database.SendBatch(ctx, batch)}
}

func (c cutResults) Close() error { return errors.Join(c.BatchResults.Close(), io.ErrUnexpectedEOF) }

func TestClaim_IsUncertainIfItsAnswerWasLost(t *testing.T) {
	b := newBench(t)
	b.Insert(b.Shop.Shop, 1)
	cut := &Store{Pool: cutter{b.Pool}, Async: b.Pool, Owner: b.Store.Owner, Lease: time.Minute}
	_, err := cut.Claim(t.Context(), 1)
	require.ErrorIs(t, err, ErrUncertain)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, 1, b.count("status = 'CLAIMED'"), "it had been committed")

	b.Execute("alter table pgdispatch.workflow_execution_queue rename to gone")
	_, err = b.Claim(t.Context(), 1)
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrUncertain, "Postgres has answered")
}
