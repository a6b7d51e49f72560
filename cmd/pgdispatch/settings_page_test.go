package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	settingsPage   = "../../docs/settings.md"
	settingsBegin  = "<!-- The table is generated from cmd/pgdispatch/config.go: make golden -->\n"
	settingsFinish = "<!-- The table ends -->\n"
)

func TestThePageOfSettingsHasEveryOption(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	table.WriteString("| variable | flag | default | meaning |\n|---|---|---|---|\n")
	for _, o := range runOptions {
		fallback := o.fallback
		if fallback != "" {
			fallback = "`" + fallback + "`"
		}
		require.NotContains(t, o.usage, "|")
		fmt.Fprintf(&table, "| `%s` | `--%s` | %s | %s |\n", o.variable, o.flag, fallback, o.usage)
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
	require.Equal(t, table.String(), written, "go test ./cmd/pgdispatch -run Page -update rewrites docs/settings.md")
}
