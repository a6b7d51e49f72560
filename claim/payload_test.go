package claim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim/schedule"
)

// Any session can notify. Whatever it sends, the memory stays small, and what a payload does not name is looked for.
func FuzzNotification(f *testing.F) {
	for _, payload := range []string{"", "1", "1:0:0", "1:5:1764100000000000,1:-5:0", "2:0:0", "1:101:0", "1:-101:1",
		"1:0:9223372036854775807", "1:0:-9223372036854775808", "-1", "0", "1:0", "1:0:0:0", ",,", "1:9223372036854775807:0"} {
		f.Add(payload)
	}
	var many []string
	for priority := range 1000 {
		many = append(many, fmt.Sprintf("1:%d:1764100000000000", priority))
	}
	f.Add(strings.Join(many, ","))
	f.Fuzz(func(t *testing.T, payload string) {
		now := time.Now()
		known := schedule.WorkspaceID{1}
		m := &memory{}
		waits := schedule.Waiting{Workspace: known, Number: 1, Limit: 5, From: schedule.Position{Due: now}}
		m.schedule.Load([]schedule.Waiting{waits}, schedule.Changed{})
		named := m.applyNotifications([]string{payload})
		workspaces, levels := m.schedule.Workspaces()
		require.Equal(t, 1, workspaces, "no payload adds a workspace")
		require.LessOrEqual(t, levels, 201, "a level for each priority that an item can have")
		p := m.schedule.Propose(now, schedule.Want{Free: 10})
		require.NotEmpty(t, p.Entries, "what is known to wait is asked for")
		if named {
			require.Regexp(t, "^[-+0-9:,]+$", payload)
		}
	})
}
