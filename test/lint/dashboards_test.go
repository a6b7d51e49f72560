package lint_test

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/pgdispatch/pgdispatch/internal/telemetry"
)

var (
	metricName = regexp.MustCompile(`\b(?:pgdispatch|queue|claim)_[a-z_]+`)
	selector   = regexp.MustCompile(`([a-z_]+)(=~|!~|!=|=)"([^"]*)"`)
)

// panel holds the fields of a dashboard panel that the tests check.
type panel struct {
	ID          int
	Title       string
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct{ RefID, Expr string }
	FieldConfig struct {
		Defaults  struct{ Unit string }
		Overrides []struct {
			Matcher    struct{ ID, Options string }
			Properties []struct{ ID, Value string }
		}
	}
}

func panels(t *testing.T) []panel {
	t.Helper()
	var board struct{ Panels []panel }
	require.NoError(t, json.Unmarshal([]byte(read(t, "deploy/grafana/pgdispatch.json")), &board))
	return board.Panels
}

// expressions returns the PromQL expressions of the dashboard and the alerts.
func expressions(t *testing.T) (dashboard, alerts []string) {
	t.Helper()
	for _, p := range panels(t) {
		for _, target := range p.Targets {
			require.NotEmpty(t, target.Expr, p.Title)
			dashboard = append(dashboard, target.Expr)
		}
	}
	for _, r := range alertRules(t) {
		require.NotEmpty(t, r.Expr, r.Alert)
		alerts = append(alerts, r.Expr)
	}
	return dashboard, alerts
}

// TestAScrapeOfARunningReplicaCountsWhatHappened compares the catalogue with a replica.
func TestTheDashboardAndTheAlertsUseTheMetricsOfTheCatalogue(t *testing.T) {
	t.Parallel()
	kinds, asked := map[string]string{}, map[string]bool{}
	for _, m := range telemetry.Catalogue() {
		kinds[m.Name] = m.Kind
	}
	dashboard, alerts := expressions(t)
	for _, expression := range append(dashboard, alerts...) {
		names := metricName.FindAllString(expression, -1)
		require.NotEmpty(t, names, expression)
		for _, name := range names {
			base, isBucket := strings.CutSuffix(name, "_bucket")
			require.Contains(t, kinds, base, expression)
			require.Equal(t, isBucket, kinds[base] == "histogram", expression)
			asked[base] = true
		}
		for _, match := range selector.FindAllStringSubmatch(expression, -1) {
			require.True(t, match[1] == "job" || has(names, match[1], match[2], match[3]), "%s: no metric has %s", expression,
				match[0])
		}
	}
	for name := range kinds {
		require.True(t, asked[name], "no panel or alert uses %s", name)
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
	alerts := regexp.MustCompile(`(?m)- alert: (\w+)$`).FindAllStringSubmatch(read(t, "deploy/prometheus/alerts.yml"), -1)
	require.NotEmpty(t, alerts)
	for _, alert := range alerts {
		require.Contains(t, read(t, "deploy/prometheus/alerts_test.yml"), "\n  - name: "+alert[1]+"\n")
	}
}

func TestEveryPanelSelectsTheJobAndHasAPlaceOfItsOwn(t *testing.T) {
	t.Parallel()
	dashboard, _ := expressions(t)
	for _, expression := range dashboard {
		require.Equal(t, len(metricName.FindAllString(expression, -1)), strings.Count(expression, `job=~"$job"`), expression)
	}
	taken, ids := map[[2]int]string{}, map[int]bool{}
	all := panels(t)
	for _, p := range all {
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				require.Empty(t, taken[[2]int{x, y}], "%s overlaps another panel", p.Title)
				require.Less(t, x, 24, p.Title)
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
	require.Len(t, slices.Collect(maps.Keys(ids)), len(all))
}

// rule holds the fields of an alert that the test checks.
type rule struct {
	Alert, Expr string
	Annotations struct {
		Runbook string `json:"runbook_url"`
	}
}

func alertRules(t *testing.T) []rule {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	require.NoError(t, yaml.Unmarshal([]byte(read(t, "deploy/prometheus/alerts.yml")), &file))
	require.Len(t, file.Groups, 1)
	return file.Groups[0].Rules
}

const runbook = "https://github.com/pgdispatch/pgdispatch/blob/main/docs/troubleshooting.md#"

func TestEveryAlertsRunbookIsAHeadingOfTroubleshooting(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/troubleshooting.md")
	byAlert := section(t, page, "By alert")
	for _, r := range alertRules(t) {
		anchor, ours := strings.CutPrefix(r.Annotations.Runbook, runbook)
		require.True(t, ours, "%s: runbook_url is %q", r.Alert, r.Annotations.Runbook)
		require.Contains(t, anchors(page), anchor, r.Alert)
		row := regexp.MustCompile("(?m)^.*`" + r.Alert + "`.*$").FindString(byAlert)
		require.Contains(t, row, "(#"+anchor+")", "%s: the page's table links elsewhere", r.Alert)
	}
}

var aggregation = regexp.MustCompile(`\b(sum|min|max|avg|count|group)\b( by \(([^)]*)\))?`)

// One Prometheus may scrape several installations: an aggregation over all of them lets one hide another's outage.
func TestEveryAlertIsOfOneInstallation(t *testing.T) {
	t.Parallel()
	for _, r := range alertRules(t) {
		for _, found := range aggregation.FindAllStringSubmatch(r.Expr, -1) {
			require.Subset(t, strings.Split(found[3], ", "), []string{"job", "cluster", "namespace"}, "%s: %s", r.Alert,
				found[0])
		}
	}
}

// unitOf returns the Grafana unit of an expression's result.
func unitOf(expression string) string {
	switch {
	case strings.Contains(expression, "histogram_quantile("):
		if strings.Contains(expression, "_seconds_bucket") {
			return "s"
		}
		return "short"
	case strings.Contains(expression, "rate("):
		return "ops"
	case strings.Contains(expression, " / ") || strings.Contains(expression, "_ratio"):
		return "percentunit"
	case strings.Contains(expression, "_seconds{"):
		return "s"
	}
	return "short"
}

// shown returns the unit and the axis of one target of a panel.
func (p panel) shown(target string) (unit, axis string) {
	unit, axis = p.FieldConfig.Defaults.Unit, "left"
	for _, override := range p.FieldConfig.Overrides {
		if override.Matcher.ID != "byFrameRefID" || override.Matcher.Options != target {
			continue
		}
		for _, property := range override.Properties {
			switch property.ID {
			case "unit":
				unit = property.Value
			case "custom.axisPlacement":
				axis = property.Value
			}
		}
	}
	return unit, axis
}

func TestEveryAxisOfTheDashboardHasOneUnit(t *testing.T) {
	t.Parallel()
	for _, p := range panels(t) {
		axes := map[string]string{}
		for _, target := range p.Targets {
			unit, axis := p.shown(target.RefID)
			require.Equal(t, unitOf(target.Expr), unit, "%s: %s", p.Title, target.Expr)
			require.Contains(t, []string{"", unit}, axes[axis], "%s: two units on the %s axis", p.Title, axis)
			axes[axis] = unit
		}
	}
}
