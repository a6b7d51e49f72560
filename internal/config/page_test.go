package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/goldentest"
)

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
	goldentest.RequirePart(t, settingsPage, settingsBegin, settingsFinish, table.String())
}
