package claim

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// cutter is a Database whose batches end with an error instead of an answer.
type cutter struct {
	Database
	err error
}

type cutResults struct {
	pgx.BatchResults
	err error
}

func (c cutter) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	return cutResults{c.Database.SendBatch(ctx, batch), c.err}
}

func (c cutResults) Close() error { return errors.Join(c.BatchResults.Close(), c.err) }

func TestClaim_IsUncertainIfItsAnswerWasLost(t *testing.T) {
	b := newBench(t)
	b.Insert(b.Shop.Shop, 1)
	cut := &Store{Pool: cutter{b.Pool, io.ErrUnexpectedEOF}, Async: b.Pool, Owner: b.Store.Owner, Lease: time.Minute}
	_, err := cut.Claim(t.Context(), 1)
	require.ErrorIs(t, err, ErrUncertain)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, 1, b.count("status = 'CLAIMED'"), "it had been committed")

	refused := &pgconn.PgError{Severity: "ERROR", Code: "57014", Message: "canceling statement due to user request"}
	cut.Pool = cutter{b.Pool, refused}
	_, err = cut.Claim(t.Context(), 1)
	require.ErrorIs(t, err, refused)
	require.NotErrorIs(t, err, ErrUncertain, "Postgres has answered")
}
