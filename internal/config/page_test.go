package config

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite the table of docs/settings.md")

const (
	settingsPage   = "../../docs/settings.md"
	settingsBegin  = "<!-- The table is generated from internal/config/config.go: make golden -->\n"
	settingsFinish = "<!-- The table ends -->\n"
)

func TestThePageOfSettingsHasEveryOption(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	table.WriteString("| variable | default | meaning |\n|---|---|---|\n")
	for _, o := range RunOptions {
		fallback := o.Default
		if fallback != "" {
			fallback = "`" + fallback + "`"
		}
		require.NotContains(t, o.Usage, "|")
		require.Equal(t, o.Flag, strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(o.Variable, "PGDISPATCH_")), "_", "-"))
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", o.Variable, fallback, o.Usage)
	}
	text, err := os.ReadFile(settingsPage)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), settingsBegin)
	require.True(t, found)
	written, after, found := strings.Cut(rest, settingsFinish)
	require.True(t, found)
	if *update {
		page := before + settingsBegin + table.String() + settingsFinish + after
		require.NoError(t, os.WriteFile(settingsPage, []byte(page), 0o644))
		return
	}
	require.Equal(t, table.String(), written, "go test ./internal/config -run Page -update rewrites docs/settings.md")
}
