//go:build failpoint

package main

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
)

// failpointsVariable names a directory. While it holds a file "stall-heartbeat-<process ID>", that replica's heartbeats hang.
const failpointsVariable = "PGDISPATCH_FAILPOINTS"

// failpoints makes a replica that fails where it is told to: by an item's params, or by a file in a directory.
func failpoints(r *replica) {
	r.dispatch.Starter = failingStarter{r.dispatch.Starter}
	if directory := os.Getenv(failpointsVariable); directory != "" {
		r.dispatch.Store = stallingStore{r.dispatch.Store, filepath.Join(directory, "stall-heartbeat-"+strconv.Itoa(os.Getpid()))}
	}
}

// failingStarter panics, or kills its process, where an item's params say {"failpoint": "panic"} or "kill".
type failingStarter struct{ dispatch.Starter }

func (s failingStarter) Start(ctx context.Context, item claim.Item) (string, error) {
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

// stallingStore hangs in a heartbeat while a file is there.
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
