package dispatch

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
)

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
