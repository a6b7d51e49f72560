package operate

import (
	"context"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
)

// Stretch is a workspace's activity in some minutes. Ends are counted when a sweep sees them, some seconds later.
type Stretch struct {
	At        time.Time
	Known     bool // false for the time before anything was recorded of any workspace
	Started   int64
	Completed int64
	Failed    int64
	Cancelled int64
	// Waited is how long the started items had been due, in total, and Longest the longest of these times.
	Waited, Longest time.Duration
}

// StretchMinutes is the number of minutes of a Stretch.
const StretchMinutes = 5

// WorkspaceActivity returns a workspace's activity since back ago without gaps, the current stretch last. It is kept
// for a day. Nil if the workspace is not in scope.
func (s *Store) WorkspaceActivity(ctx context.Context, id string, back time.Duration) ([]Stretch, error) {
	return postgres.Read[Stretch](ctx, s.DB, "read activity of workspace", sql.Text("workspace_activity_read"), id, back,
		s.Scope)
}

// JoinStretches adds up every n stretches.
func JoinStretches(all []Stretch, n int) []Stretch {
	joined := []Stretch{}
	for len(all) > 0 {
		size := (len(all)-1)%n + 1 // the first may be of fewer
		sum := Stretch{At: all[0].At}
		for _, s := range all[:size] {
			sum.Known = sum.Known || s.Known
			sum.Started, sum.Completed = sum.Started+s.Started, sum.Completed+s.Completed
			sum.Failed, sum.Cancelled = sum.Failed+s.Failed, sum.Cancelled+s.Cancelled
			sum.Waited, sum.Longest = sum.Waited+s.Waited, max(sum.Longest, s.Longest)
		}
		joined, all = append(joined, sum), all[size:]
	}
	return joined
}

// Begins returns when the stretch begins.
func (s Stretch) Begins() time.Time { return s.At }

// Active reports whether anything was started or ended.
func (s Stretch) Active() bool { return s.Started+s.Completed+s.Failed+s.Cancelled > 0 }
