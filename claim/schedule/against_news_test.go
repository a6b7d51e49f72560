package schedule

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// looks compares what both report since the last look.
func (w *twins) looks() string {
	defer w.arrives(w.seen, w.reallySaw)
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

// arrives compares what both say each transaction enqueued since these snapshots, as far as they are asked.
func (w *twins) arrives(seen snapshot, reallySaw string) {
	most, want, got := 1+w.r.IntN(2), []string{}, map[any]string{}
	for _, came := range w.Arrivals(encodeSnapshot(seen), encodeSnapshot(w.seen), most) {
		text := ""
		for _, l := range came {
			text += fmt.Sprint(uuid.UUID(l.Workspace), l.Priority, l.Key, l.From.Due.UnixMicro(), " ")
		}
		want = append(want, text)
	}
	want = slices.DeleteFunc(want, func(text string) bool { return text == "" })
	for _, row := range w.really("arrivals", reallySaw, w.reallySaw, most) {
		got[row["xid"]] += fmt.Sprint(uuid.UUID(row["workspace_id"].([16]byte)), row["priority"], row["limit_key"],
			row["due"].(time.Time).UnixMicro(), " ")
	}
	require.ElementsMatch(w.t, want, slices.Collect(maps.Values(got)))
	w.cases["arrivals"] += len(got)
}
