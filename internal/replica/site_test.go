package replica

import (
	"log/slog"
	"testing"

	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/local"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/stretchr/testify/require"
)

func TestWhatPagesChangeGoesOverAVerifiedConnectionToo(t *testing.T) {
	t.Parallel()
	_, _, err := openSite(t.Context(),
		config.Config{Database: postgres.Target{URL: "postgres://app@localhost/shop"},
			OperatorURL: "postgres://app@db.example/shop"}, slog.New(slog.DiscardHandler))
	require.ErrorIs(t, err, local.ErrUnverified)
	require.ErrorContains(t, err, "PGDISPATCH_OPERATOR_DATABASE_URL: the connection to db.example")

	const both = "postgres://app@db.example/shop"
	c := config.Config{Database: postgres.Target{URL: both}, OperatorURL: both}
	require.ErrorContains(t, c.Database.Verify(), "DATABASE_URL: the connection to db.example")
	require.NotContains(t, c.Database.Verify().Error(), "OPERATOR", "each by its own name")
	require.ErrorContains(t, c.Operator().Verify(), "PGDISPATCH_OPERATOR_DATABASE_URL: the connection to db.example")
}
