package schedule

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// looks compares what both report since the last look.
func (w *twins) looks() string {
	news := w.look(w.seen, math.MaxInt)
	w.seen = news.now
	var want, got []string
	all := false
	for _, c := range news.changes {
		line := fmt.Sprint(uuid.UUID(c.Workspace), c.Keys, c.Items)
		if c.Waits {
			line += fmt.Sprint(c.Priority, c.Key, c.Due.UnixMicro())
		}
		want = append(want, line)
	}
	for _, row := range w.really("look", w.reallySaw, 1000, nil) {
		w.reallySaw = row["seen"].(string)
		switch id, named := row["workspace_id"].([16]byte); {
		case row["changed"] != true:
		case !named:
			all = true
		default:
			keys := []string{}
			if list, some := row["limit_keys"].([]any); some {
				for _, key := range list {
					keys = append(keys, key.(string))
				}
			}
			line := fmt.Sprint(uuid.UUID(id), keys, row["items"])
			if row["priority"] != nil {
				line += fmt.Sprint(row["priority"], row["limit_key"], row["due"].(time.Time).UnixMicro())
			}
			got = append(got, line)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	require.Equal(w.t, want, got)
	require.Equal(w.t, news.all, all, "all limits")
	return "look"
}
