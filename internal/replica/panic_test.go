package replica

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/process"
)

func TestAPanicOfAPartIsAnErrorThatEndsTheReplica(t *testing.T) {
	t.Parallel()
	var text process.Buffer
	log := slog.New(slog.NewJSONHandler(&text, nil))
	err := contained(t.Context(), log, func(context.Context) error { panic("boom") })
	require.EqualError(t, err, "panic: boom")
	require.True(t, strings.Contains(text.String(), "Panic: shutting down this replica"))
	require.Contains(t, text.String(), "panic_test.go", "the stack")
	require.NoError(t, contained(t.Context(), log, func(context.Context) error { return nil }))
}
