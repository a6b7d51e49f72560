package e2e

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/telemetry"
)

const anyPort = "PGDISPATCH_ADMIN_ADDR=127.0.0.1:0"

// admin returns the replica's admin address.
func (p *replica) admin() string {
	p.t.Helper()
	address := ""
	await(p.t, 20*time.Second, func() bool {
		for line := range strings.Lines(p.Log()) {
			var event struct{ Msg, Address string }
			if json.Unmarshal([]byte(line), &event) == nil && event.Msg == "Serving health and metrics" {
				address = event.Address
			}
		}
		return address != ""
	}, "the admin server runs")
	return "http://" + address
}

// get sends a request to the replica, and returns the answer's status and text.
func (p *replica) get(path string) (int, string) {
	p.t.Helper()
	response, err := http.Get(p.admin() + path)
	require.NoError(p.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(p.t, err)
	return response.StatusCode, string(text)
}

// scrape returns the replica's metrics by name.
func (p *replica) scrape() map[string]*dto.MetricFamily {
	p.t.Helper()
	status, text := p.get("/metrics")
	require.Equal(p.t, http.StatusOK, status, text)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	require.NoError(p.t, err, text)
	return families
}

// sample returns the value of a counter or gauge, or the count of a histogram, or -1 if the metric is absent.
func sample(families map[string]*dto.MetricFamily, name, value string) float64 {
	for _, m := range families[name].GetMetric() {
		if value != "" && (len(m.Label) != 1 || m.Label[0].GetValue() != value) {
			continue
		}
		return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	return -1
}

// requireLint checks what `promtool check metrics` checks.
func requireLint(t *testing.T, scraped map[string]*dto.MetricFamily) {
	t.Helper()
	problems, err := promlint.NewWithMetricFamilies(slices.Collect(maps.Values(scraped))).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
}

// waitsForALimit enqueues an item for a key that may start nothing.
func (s *stack) waitsForALimit() {
	s.t.Helper()
	one[int64](s, "insert into pgdispatch.limits (key, max_concurrent) values ('gpu', 0) returning id")
	one[int64](s, `insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, limit_key)
		select workspace_id, id, 'gpu' from pgdispatch.workflow_definitions where workspace_id = $1 and name = 'Hold'
		returning id`, s.workspace["PRO"])
}

func TestAScrapeOfARunningReplicaCountsWhatHappened(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	p := s.replica(anyPort, "PGDISPATCH_METRICS_WORKSPACES=1", "PGDISPATCH_METRICS_LIMITS=1").ready()
	s.enqueue("PRO", "Echo", 7)
	s.enqueue("FREE", "Fail", 1)
	s.foreign()
	s.eventually(func() bool { return s.count("finished_at is not null") == 9 }, "all executions end")
	s.enqueue("PRO", "Hold", 5)
	s.waitsForALimit()
	s.eventually(func() bool { return s.count("status = 'DISPATCHED'") == 5 }, "the workspace is full")
	one[int64](s,
		"select pgdispatch.signal(id, 'hi') from pgdispatch.workflow_executions where status = 'RUNNING' limit 1")
	var got map[string]*dto.MetricFamily
	s.eventually(func() bool {
		got = p.scrape()
		return sample(got, "pgdispatch_queue_items", "DISPATCHED") == 5 && sample(got, "pgdispatch_watches", "") == 5 &&
			sample(got, "pgdispatch_signal_seconds", "") == 1
	}, "the gauges are at most some seconds old")
	for _, want := range []struct {
		name, label string
		value       float64
	}{
		{"pgdispatch_items_dispatched_total", "", 13},
		{"pgdispatch_settles_total", "dispatched", 13},
		{"pgdispatch_settles_total", "fail", 1},
		{"pgdispatch_items_failed_total", "refused", 1},
		{"pgdispatch_items_failed_total", "workflow_failed", 1},
		{"pgdispatch_items_failed_total", "attempts_exhausted", 0},
		{"pgdispatch_start_failures_total", "permanent", 1},
		{"pgdispatch_wait_seconds", "", 13},
		{"pgdispatch_start_duration_seconds", "", 14},
		{"pgdispatch_item_attempts", "", 14},
		{"pgdispatch_executions_ended_total", "completed", 7},
		{"pgdispatch_executions_ended_total", "failed", 1},
		{"pgdispatch_claims_total", "items", sample(got, "pgdispatch_claim_batch_size", "")},
		{"pgdispatch_claim_processing_seconds", "", sample(got, "pgdispatch_claim_batch_size", "")},
		{"pgdispatch_claims_total", "error", 0}, {"pgdispatch_store_errors_total", "claim", 0},
		{"pgdispatch_lease_losses_total", "", 0},
		{"pgdispatch_items_recovered_total", "", 0},
		{"pgdispatch_claim_lock_failures_total", "", 0},
		{"pgdispatch_items_held", "", 0},
		{"pgdispatch_workers", "", 10},
		{"pgdispatch_ready", "", 1},
		{"pgdispatch_breaker_open", "", 0},
		{"pgdispatch_listener_connected", "", 1},
		{"pgdispatch_on_duty", "", 1},
		{"pgdispatch_database_up", "", 1},
		{"pgdispatch_queue_items", "PENDING", 1},
		{"pgdispatch_queue_items", "CLAIMED", 0},
		{"pgdispatch_dead_letters_open", "", 2},
		{"pgdispatch_replicas", "", 1},
		{"pgdispatch_max_claims", "", 100},
		{"pgdispatch_paused", "", 0}, {"pgdispatch_workspace_waiting", s.workspace["PRO"], 1},
		{"pgdispatch_workspace_active", s.workspace["PRO"], 5},
		{"pgdispatch_workspace_limit", s.workspace["PRO"], 5},
		{"pgdispatch_limit_max", "gpu", 0}, {"pgdispatch_limit_waiting", "gpu", 1}, {"pgdispatch_limit_full", "gpu", 1},
	} {
		require.InDelta(t, want.value, sample(got, want.name, want.label), 0.1, "%s %s", want.name, want.label)
	}
	require.Positive(t, sample(got, "pgdispatch_wakeups_total", "notification"))
	require.Positive(t, sample(got, "pgdispatch_wakeups_total", "completion"))
	require.Positive(t, sample(got, "pgdispatch_workspaces_at_capacity_total", ""))
	require.Positive(t, sample(got, "pgdispatch_oldest_waiting_seconds", ""))
	requireCatalogue(t, got)
	requireLint(t, got)
	require.NoError(t, p.Signal(syscall.SIGTERM))
	require.Zero(t, p.exit())
}

// codecDuration is a histogram, so a replica without a codec has none: see TestAnOutageOfTheCodecServerOnlyDelays.
const codecDuration = "pgdispatch_codec_duration_seconds"

// requireCatalogue compares the catalogue with the metrics of a replica without a codec.
func requireCatalogue(t *testing.T, got map[string]*dto.MetricFamily) {
	t.Helper()
	for _, m := range telemetry.Catalogue() {
		if m.Name == codecDuration {
			continue
		}
		require.Contains(t, got, m.Name, "the catalogue lists it")
		require.Equal(t, m.Kind, strings.ToLower(got[m.Name].GetType().String()), m.Name)
		for _, one := range got[m.Name].Metric {
			for _, label := range one.Label {
				require.Contains(t, []string{m.Label, m.Within}, label.GetName(), m.Name)
				require.True(t, m.Values == nil || slices.Contains(m.Values, label.GetValue()), "%s has the value %s", m.Name,
					label.GetValue())
			}
		}
	}
}
