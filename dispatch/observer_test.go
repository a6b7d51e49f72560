package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/pgdispatch/pgdispatch/internal/looptest"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// fakeObserver records its calls. It is read with its lock, or when the dispatcher is idle.
type fakeObserver struct {
	noObserver
	mu      sync.Mutex
	sources []string
	breaker []bool
	paused  int // namespaces, as last reported
	lost    []int64
	stalled []time.Duration
	lines   []string // starts, settles and heartbeats
}

func (f *fakeObserver) note(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

func (f *fakeObserver) Woken(source string) { f.note(func() { f.sources = append(f.sources, source) }) }
func (f *fakeObserver) Lost(itemID int64)   { f.note(func() { f.lost = append(f.lost, itemID) }) }

func (f *fakeObserver) Stalled(took time.Duration) {
	f.note(func() { f.stalled = append(f.stalled, took) })
}

func (f *fakeObserver) Paused(namespaces int, open bool, _ error) {
	f.note(func() { f.paused, f.breaker = namespaces, append(f.breaker, open) })
}

func (f *fakeObserver) line(format string, args ...any) {
	f.note(func() { f.lines = append(f.lines, fmt.Sprintf(format, args...)) })
}

func (f *fakeObserver) Starting(request *claim.Item) func(string, engine.Outcome, error) {
	request.Traceparent = "changed"
	return func(runID string, outcome engine.Outcome, err error) { f.line("start %d: %s", request.ID, outcome) }
}

func (f *fakeObserver) Fails(item *claim.Item, outcome engine.Outcome) {
	f.line("item %d fails: %s", item.ID, outcome)
}

func (f *fakeObserver) Settled(_ time.Time, verb claim.Verb, settled []int64, err error) {
	f.line("%s %v %v", verb, settled, err)
}

func (f *fakeObserver) Renewed(err error) { f.line("heartbeat %v", err) }

// pausedAll returns the last reported state of the breaker.
func (f *fakeObserver) pausedAll() bool {
	_, all := f.pauses()
	return all
}

// pauses returns how many namespaces are paused, and whether all are, as last reported.
func (f *fakeObserver) pauses() (namespaces int, all bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.paused, len(f.breaker) > 0 && f.breaker[len(f.breaker)-1]
}

func TestTheObserverHearsOfEachStartSettleAndHeartbeat(t *testing.T) {
	bubble(t, 1, func(t *testing.T, d *desk) {
		observer := d.observed()
		d.onStart = func(_ context.Context, item claim.Item) (string, error) {
			require.Equal(t, "changed", item.Traceparent)
			if item.ID == 2 {
				panic("boom")
			}
			return "", temporal.As(engine.Forgotten, temporal.ErrForgotten)
		}
		d.enqueue(2)
		stop := d.run()
		looptest.Pass(100 * time.Millisecond)
		stop()
		require.Subset(t, observer.lines,
			[]string{"start 1: forgotten", "item 1 fails: forgotten", "fail [1] <nil>", "start 2: panic", "retry [2] <nil>"})
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
