//go:build failpoint

package replica

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/dispatch"
	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/pgdispatch/pgdispatch/internal/config"
)

// failpointsVariable names a directory. While it contains a file "stall-heartbeat-<process ID>", the heartbeats of that
// replica hang.
const failpointsVariable = "PGDISPATCH_FAILPOINTS"

func init() { config.Know(failpointsVariable) }

// failpoints makes a replica fail on request: through an item's params, or a file in a directory.
func failpoints(r *replica) {
	r.dispatch.Starter = failingStarter{r.dispatch.Starter}
	if directory := os.Getenv(failpointsVariable); directory != "" {
		r.dispatch.Store = stallingStore{r.dispatch.Store,
			filepath.Join(directory, "stall-heartbeat-"+strconv.Itoa(os.Getpid()))}
	}
}

// failingStarter panics or kills the process if an item's params contain {"failpoint": "panic"} or {"failpoint":
// "kill"}.
type failingStarter struct{ dispatch.Starter }

func (s failingStarter) Start(ctx context.Context, item claim.Item) (string, engine.Outcome, error) {
	var params struct{ Failpoint string }
	if json.Unmarshal(item.Params, &params) == nil {
		switch params.Failpoint {
		case "panic":
			panic("failpoint")
		case "kill":
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	return s.Starter.Start(ctx, item)
}

// stallingStore blocks heartbeats while a file exists.
type stallingStore struct {
	dispatch.Store
	file string
}

func (s stallingStore) Heartbeat(ctx context.Context, held []claim.Held) ([]int64, error) {
	const interval = 10 * time.Millisecond
	for {
		if _, err := os.Stat(s.file); err != nil {
			return s.Store.Heartbeat(ctx, held)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(interval):
		}
	}
}
