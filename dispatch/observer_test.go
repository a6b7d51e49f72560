package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// fakeObserver records its calls.
type fakeObserver struct {
	noObserver
	mu      sync.Mutex
	sources []string
	breaker []bool
	paused  int // namespaces, as last reported
	lost    []int64
}

func (f *fakeObserver) Woken(source string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sources = append(f.sources, source)
}

func (f *fakeObserver) Paused(namespaces int, open bool, _ error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paused = namespaces
	f.breaker = append(f.breaker, open)
}

// pausedAll returns the last reported state of the breaker.
func (f *fakeObserver) pausedAll() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.breaker) > 0 && f.breaker[len(f.breaker)-1]
}

func (f *fakeObserver) pausedNamespaces() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.paused
}

func (f *fakeObserver) Lost(itemID int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost = append(f.lost, itemID)
}

func TestTheObserverHearsOfEachClaimAndWhatItWasFor(t *testing.T) {
	bubble(t, 1, func(t *testing.T, d *desk) {
		observer := d.observed()
		stop := d.run()
		pass(time.Second)
		d.enqueue(1)
		d.wake <- "completion"
		pass(5 * time.Second)
		stop()
		require.Len(t, observer.sources, len(d.seen().claims))
		require.Equal(t, "start", observer.sources[0])
		require.Contains(t, observer.sources, "completion")
		require.Contains(t, observer.sources, "poll")
		require.Empty(t, observer.breaker)
		require.Empty(t, observer.lost)
	})
}

func TestTheObserverHearsOnceOfEachLostLease(t *testing.T) {
	bubble(t, 3, func(t *testing.T, d *desk) {
		observer := d.observed()
		d.StartTimeout = time.Minute
		d.enqueue(3)
		d.onStart = starts(12 * time.Second)
		d.onHeartbeat = func([]claim.Held) ([]int64, error) { return []int64{1, 3}, nil } // 2 is lost during its start
		d.onSettle = func(_ claim.Verb, batch []claim.Settlement) ([]int64, error) {
			return []int64{1}, nil // 3 is lost before its settlement
		}
		stop := d.run()
		pass(time.Minute)
		stop()
		require.Equal(t, []int64{2, 3}, slices.Sorted(slices.Values(observer.lost)))
	})
}

// book is an observer that records starts and settlements.
type book struct {
	noObserver
	mu    sync.Mutex
	lines []string
}

func (b *book) note(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, fmt.Sprintf(format, args...))
}

func (b *book) Starting(request *claim.Item) func(string, engine.Outcome, error) {
	request.Traceparent = "changed"
	return func(runID string, outcome engine.Outcome, err error) { b.note("start %d: %s", request.ID, outcome) }
}

func (b *book) Settled(_ time.Time, verb claim.Verb, settled []int64, err error) {
	b.note("%s %v %v", verb, settled, err)
}

func (b *book) Renewed(err error) { b.note("heartbeat %v", err) }

func TestTheObserverHearsOfEachStartSettleAndHeartbeat(t *testing.T) {
	bubble(t, 1, func(t *testing.T, d *desk) {
		observer := &book{}
		d.Observer = observer
		d.onStart = func(_ context.Context, item claim.Item) (string, error) {
			require.Equal(t, "changed", item.Traceparent)
			if item.ID == 2 {
				panic("boom")
			}
			return "", temporal.As(engine.Forgotten, temporal.ErrForgotten)
		}
		d.enqueue(2)
		stop := d.run()
		pass(100 * time.Millisecond)
		stop()
		require.Subset(t, observer.lines,
			[]string{"start 1: forgotten", "fail [1] <nil>", "start 2: panic", "retry [2] <nil>"})
	})
}

// Every log line about an item has its ID.
func TestEachStepOfAHandOverIsLoggedWithWhatItIsAbout(t *testing.T) {
	bubble(t, 1, func(t *testing.T, d *desk) {
		var out bytes.Buffer
		d.Log = slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		d.enqueueItem(claim.Item{WorkspaceID: "shop", WorkflowDefinitionID: "report"})
		d.enqueueItem(claim.Item{WorkspaceID: "gone", WorkflowDefinitionID: "report", Problem: "workspace not found"})
		stop := d.run()
		synctest.Wait()
		stop()

		seen := map[string]map[string]any{}
		for line := range strings.Lines(out.String()) {
			var record map[string]any
			require.NoError(t, json.Unmarshal([]byte(line), &record))
			if message := record["msg"].(string); seen[message] == nil {
				seen[message] = record
			}
		}
		for message, fields := range map[string]map[string]any{
			"Processing queue items": {"level": "DEBUG", "batch_size": 1.0},
			"Dispatching queue item": {"level": "INFO", "queue_item_id": 1.0, "execution_id": "e1", "workspace_id": "shop",
				"workflow_definition_id": "report", "attempt": 1.0},
			"Dispatched execution": {"level": "INFO", "queue_item_id": 1.0, "execution_id": "e1", "workspace_id": "shop",
				"workflow_id": "execution-e1"},
			"Workspace not found": {"level": "WARN", "queue_item_id": 2.0, "workspace_id": "gone"},
		} {
			for key, want := range fields {
				require.Equal(t, want, seen[message][key], "%s: %s in %v", message, key, seen[message])
			}
		}
	})
}
