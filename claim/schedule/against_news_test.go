package schedule

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql"
)

// looks compares what both report since the last look.
func (w *twins) looks() string {
	news := w.look(w.seen)
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
	rows, err := w.Conns.Query(w.t.Context(), sql.Text("look"), w.reallySaw, 1000, nil)
	require.NoError(w.t, err)
	defer rows.Close()
	for rows.Next() {
		row, names := map[string]any{}, rows.FieldDescriptions()
		values, err := rows.Values()
		require.NoError(w.t, err)
		for n, value := range values {
			row[names[n].Name] = value
		}
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
	require.NoError(w.t, rows.Err())
	slices.Sort(want)
	slices.Sort(got)
	require.Equal(w.t, want, got)
	require.Equal(w.t, news.all, all, "all limits")
	return "look"
}
