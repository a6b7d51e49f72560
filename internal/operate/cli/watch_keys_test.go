package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/process"
)

// manyView has more workspaces than a screen, and records the queries for them.
type manyView struct{ fakeView }

func (f *manyView) ListWorkspaces(_ context.Context, search string, by operate.WorkspaceOrder, _ *operate.WorkspaceKey,
	_ int) ([]operate.WorkspaceRow, error) {
	rows := []operate.WorkspaceRow{{Name: fmt.Sprintf("asked for %q by %s", search, by)}}
	for n := range 40 {
		rows = append(rows, operate.WorkspaceRow{Name: fmt.Sprintf("workspace-%02d", n)})
	}
	return rows, nil
}

func TestTheKeysOfTheWatchSortFilterScrollAndExplainThemselves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out, keys := &process.Buffer{}, make(chan key)
		w := &watcher{Store: &manyView{}, Interval: time.Hour, Sort: operate.ByOldest, Out: out, Keys: keys,
			Size: func() (int, int) { return 90, 20 }}
		done := make(chan error, 1)
		go func() { done <- w.Run(t.Context()) }()
		in, person := io.Pipe()
		go readKeys(in, keys, t.Context().Done())
		types := func(typed string) string {
			_, err := person.Write([]byte(typed))
			require.NoError(t, err)
			synctest.Wait()
			frames := strings.Split(out.String(), "\x1b[H")
			return frames[len(frames)-1]
		}
		for _, step := range []struct{ typed, want, without string }{
			{"x", `asked for "" by oldest`, ""},
			{"s", `asked for "" by running`, ""}, {"ss", `asked for "" by name`, ""}, {"s", `asked for "" by oldest`,
				""},
			{"/sqé東x", "part of the name (Enter, Esc): sqé東x_", "asked for \"sq"},
			{"\x7f\x7f", "part of the name (Enter, Esc): sqé_", ""},
			{"\r", `asked for "sqé" by oldest`, ""},
			{"s", `names with "sqé"; ? shows the keys`, ""},
			{"/z\x1b", `asked for "sqé" by running`, "Enter"},
			{"\x1b", `asked for "" by running`, "names with"},
			{"?", "scroll by a line", "asked for"}, {"?", "asked for", "scroll by a line"}, {"?j", "asked for",
				"scroll by a line"},
			{"kkkk", "waiting 0", ""}, {"jjjj", "REPLICA", "waiting 0"}, {"\x1b[A\x1b[A\x1b[A\x1b[A", "waiting 0", ""},
			{"\x1b[B\x1b[B\x1b[B\x1b[B", "REPLICA", "waiting 0"},
			{"\x1b[6~\x1b[6~\x1b[6~\x1b[6~", "workspace-39", "workspace-10"},
			{"k", "2 more lines", "workspace-39"}, {"\x1b[5~\x1b[5~\x1b[5~\x1bOA\x1b[15~", "waiting 0", "workspace-39"},
		} {
			frame := types(step.typed)
			require.Contains(t, frame, step.want, "%q", step.typed)
			if step.without != "" {
				require.NotContains(t, frame, step.without, "%q", step.typed)
			}
		}
		require.Empty(t, done)
		_, _ = person.Write([]byte("/\x03"))
		require.NoError(t, <-done, "Ctrl-C quits even while a filter is typed")
		_ = person.Close()
	})
}
