package main

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/telemetry"
)

var (
	metricName = regexp.MustCompile(`\b(?:pgdispatch|queue|claim)_[a-z_]+`)
	selector   = regexp.MustCompile(`([a-z_]+)(=~|!~|!=|=)"([^"]*)"`)
	ruleExpr   = regexp.MustCompile(`(?m)^ +expr: (.*)$`)
)

// expressions returns the Prometheus expressions of the dashboard and the alerts.
func expressions(t *testing.T) (dashboard, alerts []string) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/grafana/pgdispatch.json")
	require.NoError(t, err)
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &board))
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			require.NotEmpty(t, target.Expr, panel.Title)
			dashboard = append(dashboard, target.Expr)
		}
	}
	text, err = os.ReadFile("../../deploy/prometheus/alerts.yml")
	require.NoError(t, err)
	for _, rule := range ruleExpr.FindAllStringSubmatch(string(text), -1) {
		alerts = append(alerts, rule[1])
	}
	require.Len(t, alerts, strings.Count(string(text), "- alert: "))
	return dashboard, alerts
}

// requireDashboard compares the dashboard and the alerts with the metrics of a replica.
func requireDashboard(t *testing.T, scraped map[string]*dto.MetricFamily) {
	t.Helper()
	dashboard, alerts := expressions(t)
	asked := map[string]bool{}
	for _, expression := range append(dashboard, alerts...) {
		names := metricName.FindAllString(expression, -1)
		require.NotEmpty(t, names, expression)
		for _, name := range names {
			base, isBucket := strings.CutSuffix(name, "_bucket")
			require.Contains(t, scraped, base, expression)
			require.Equal(t, isBucket, scraped[base].GetType() == dto.MetricType_HISTOGRAM, expression)
			asked[base] = true
		}
		for _, match := range selector.FindAllStringSubmatch(expression, -1) {
			require.True(t, match[1] == "job" || has(names, match[1], match[2], match[3]), "%s: no metric has %s", expression, match[0])
		}
	}
	for _, m := range telemetry.Catalogue() {
		require.True(t, asked[m.Name], "%s is shown nowhere", m.Name)
	}
}

// has reports whether one of the metrics has the label.
func has(names []string, label, operator, value string) bool {
	return slices.ContainsFunc(telemetry.Catalogue(), func(m telemetry.Metric) bool {
		return slices.Contains(names, m.Name) && m.Label == label &&
			(strings.Contains(operator, "~") || slices.Contains(m.Values, value))
	})
}

func TestEveryAlertIsSeenToFireByMakeAlerts(t *testing.T) {
	t.Parallel()
	alerts := regexp.MustCompile(`(?m)- alert: (\w+)$`).FindAllStringSubmatch(readDeploy(t, "prometheus/alerts.yml"), -1)
	require.NotEmpty(t, alerts)
	for _, alert := range alerts {
		require.Contains(t, readDeploy(t, "prometheus/alerts_test.yml"), "\n  - name: "+alert[1]+"\n")
	}
}

func TestEveryPanelSelectsTheJobAndHasAPlaceOfItsOwn(t *testing.T) {
	t.Parallel()
	dashboard, _ := expressions(t)
	for _, expression := range dashboard {
		require.Equal(t, len(metricName.FindAllString(expression, -1)), strings.Count(expression, `job=~"$job"`), expression)
	}
	text, err := os.ReadFile("../../deploy/grafana/pgdispatch.json")
	require.NoError(t, err)
	var board struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
		}
	}
	require.NoError(t, json.Unmarshal(text, &board))
	taken, ids := map[[2]int]string{}, map[int]bool{}
	for _, panel := range board.Panels {
		ids[panel.ID] = true
		for x := panel.GridPos.X; x < panel.GridPos.X+panel.GridPos.W; x++ {
			for y := panel.GridPos.Y; y < panel.GridPos.Y+panel.GridPos.H; y++ {
				require.Empty(t, taken[[2]int{x, y}], "%s lies on another panel", panel.Title)
				require.Less(t, x, 24, panel.Title)
				taken[[2]int{x, y}] = panel.Title
			}
		}
	}
	require.Len(t, slices.Collect(maps.Keys(ids)), len(board.Panels))
}
