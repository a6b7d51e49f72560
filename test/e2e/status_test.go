package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStatusShowsWhatNeedsAttentionFirst(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.dead(d.workspace, 2, "card refused")
	d.enqueues()
	_, err := d.replica().Claim(t.Context(), 0) // workspaces are updated
	require.NoError(t, err)
	d.exec("insert into pgdispatch.workspaces (name) values ($1)", "evil\u202e2J")
	out := d.types("status")
	lines := strings.Split(out, "\n")
	require.Contains(t, lines[0], "NOT STARTING")
	require.Contains(t, lines[1], "No replica is running")
	require.Contains(t, lines[2], "2 dead letters wait")
	require.Regexp(t, `(?m)^shop +FREE +░{10} +0/5,000 +1 +\d`, out)
	require.NotContains(t, out, "\u202e")
	require.Less(t, strings.Index(out, "shop"), strings.Index(out, "evil"), "the longest wait comes first")
	shown := d.types("status", "-o", "json")
	require.Regexp(t, `"settings": {[^}]*"max_claims": 10000,`, shown)
	require.NotContains(t, shown, `"minutes"`)
	d.exec("insert into pgdispatch.activity (minute, started) values (date_trunc('minute', now()), 1)")
	require.Contains(t, d.types("status", "-o", "json", "--minutes"), `"minutes": [`)
	for args, want := range map[string]string{
		"--sort age":             `--sort is "age": it must be oldest, running, failures or name`,
		"--interval 1ms":         "--interval is 1ms: it must be from 200ms to 1h",
		"--watch --output json":  "--watch cannot be combined with --output json",
		"--limit 0":              "--limit is 0",
		"--sort name --limit -1": "--limit is -1",
	} {
		_, errs, code := d.tries(append([]string{"status"}, strings.Fields(args)...)...)
		require.Equal(t, 1, code)
		require.Contains(t, errs, want)
	}
}
