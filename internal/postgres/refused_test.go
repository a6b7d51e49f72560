package postgres

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

func TestAnErrorOfAConnectionSaysItsCauseOnceAndFirst(t *testing.T) {
	t.Parallel()
	_, err := pgx.Connect(t.Context(), "postgres://app:secret@127.0.0.1:1/shop") // tried with TLS and without
	require.Error(t, err)
	require.Equal(t, 2, strings.Count(err.Error(), "refused"))
	err = Redact(fmt.Errorf("find names: %w", err))
	require.EqualError(t, err, `connection refused: cannot connect to 127.0.0.1:1 (127.0.0.1) as "app", database "shop": `+
		"find names")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.True(t, IsUnavailable(err))
	require.Equal(t, err, Redact(err))

	_, err = pgx.Connect(t.Context(), "host=127.0.0.1,localhost port=1,2 user=app database=shop sslmode=disable")
	text := Redact(err).Error()
	require.Equal(t, 1, strings.Count(text, "refused"), text)
	require.Contains(t, text, "127.0.0.1:1 (127.0.0.1), 127.0.0.1:2 (localhost) as")

	_, err = pgx.Connect(t.Context(), "postgres://app@nowhere.invalid/shop")
	require.Regexp(t, `^lookup nowhere\.invalid.*: cannot connect to Postgres as "app", database "shop"$`,
		Redact(err).Error())
	plain := errors.New("another")
	require.Equal(t, plain, Redact(plain))
}
