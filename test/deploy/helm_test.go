package deploy_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/pgdispatch/pgdispatch/internal/config"
)

const chart = "../../deploy/helm/pgdispatch"

// render renders the chart as `helm install shop` does, and returns its manifests and notes.
func render(t *testing.T, values string) (manifests, notes string, err error) {
	t.Helper()
	loaded, err := loader.Load(chart)
	require.NoError(t, err)
	var given map[string]any
	require.NoError(t, yaml.Unmarshal([]byte(values), &given))
	release := chartutil.ReleaseOptions{Name: "shop", Namespace: "apps", Revision: 1, IsInstall: true}
	merged, err := chartutil.ToRenderValues(loaded, given, release, chartutil.DefaultCapabilities)
	if err != nil {
		return "", "", err
	}
	rendered, err := engine.Render(loaded, merged)
	if err != nil {
		return "", "", err
	}
	documents := []string{}
	for _, name := range slices.Sorted(maps.Keys(rendered)) {
		switch {
		case strings.HasSuffix(name, "NOTES.txt"):
			notes = rendered[name]
		case strings.HasSuffix(name, ".yaml") && strings.TrimSpace(rendered[name]) != "":
			documents = append(documents, strings.TrimSpace(rendered[name]))
		}
	}
	return strings.Join(documents, "\n---\n"), notes, nil
}

// install renders the chart with valid values.
func install(t *testing.T, values string) (installation, string) {
	t.Helper()
	manifests, notes, err := render(t, values)
	require.NoError(t, err)
	return read(t, manifests), notes
}

func TestTheChartIsWithoutLint(t *testing.T) {
	t.Parallel()
	for name, values := range valueSets {
		var given map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(values), &given))
		for _, message := range lint.All(chart, given, "apps", true).Messages {
			if message.Severity > support.InfoSev {
				require.NoError(t, message, name)
			}
		}
	}
}

// valueSets are sets of values. Each must render an installation that the binary understands.
var valueSets = map[string]string{
	"defaults": "",
	"everything": `
fullnameOverride: dispatcher
image: {repository: registry.internal/pgdispatch, digest: "sha256:` + strings.Repeat("0a", 32) + `", pullPolicy: Always}
imagePullSecrets: [{name: registry}]
replicas: 3
database: {secret: shop-db, operatorSecret: shop-web}
temporal:
  address: shop.a1b2c.tmprl.cloud:7233
  namespace: shop.a1b2c
  apiKeySecret: shop-temporal
  tls: {caKey: temporal.crt, serverName: temporal.internal, clientSecret: shop-mtls}
ca: {configMap: authorities}
tokens: {secret: shop-tokens}
admin: {tls: {secret: shop-admin}}
drainSeconds: 60
config: {PGDISPATCH_WORKERS: 20, PGDISPATCH_LISTEN: off, PGDISPATCH_LOG_LEVEL: debug, PGDISPATCH_MAX_WATCHES: 100000}
extraEnv: [{name: PGDISPATCH_METRICS_WORKSPACES, value: "10"}]
resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 4, memory: 2Gi}}
migrate: {secret: shop-owner, backoffLimit: 1}
podDisruptionBudget: {maxUnavailable: 50%}
service: {port: 80, annotations: {a: b}}
podMonitor: {enabled: true, interval: 15s, labels: {release: prometheus}, tlsConfig: {serverName: shop.internal}}
prometheusRule: {enabled: true, labels: {release: prometheus}}
podAnnotations: {a: b}
podLabels: {team: shop}
priorityClassName: high
nodeSelector: {disk: ssd}
tolerations: [{key: a, operator: Exists}]
affinity: {nodeAffinity: {}}
`,
	"minimal": `
replicas: 1
temporal: {address: "localhost:7233", tls: {enabled: false}, allowInsecure: true}
database: {allowInsecure: true}
tokens: {secret: ""}
migrate: {enabled: false}
podDisruptionBudget: {enabled: false}
service: {enabled: false}
`,
	"only the rule":   "prometheusRule: {enabled: true}",
	"TLS to replicas": "admin: {tls: {secret: shop-admin}}",
}

func TestTheChartRendersWhatTheBinaryUnderstands(t *testing.T) {
	t.Parallel()
	for name, values := range valueSets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in, notes := install(t, values)
			requireInstallation(t, in)
			require.Contains(t, notes, "pgdispatch")
			if in.Rule != nil {
				require.Equal(t, alerts(t), in.Rule.Spec)
			}
		})
	}
}

func TestTheChartIsTheBaseByDefault(t *testing.T) {
	in, notes := install(t, "")
	values, secrets := requireInstallation(t, in)
	requireVerified(t, values)
	ofBase, _ := requireInstallation(t, kustomize(t, ""))
	require.Equal(t, ofBase, values)
	require.Equal(t,
		map[string]string{"DATABASE_URL": "pgdispatch", "PGDISPATCH_ADMIN_TOKEN": "pgdispatch",
			"PGDISPATCH_VIEW_TOKEN": "pgdispatch"}, secrets)
	require.Equal(t, "pre-install,pre-upgrade", in.Job.Annotations["helm.sh/hook"])
	require.Nil(t, in.PodMonitor)
	require.Nil(t, in.Rule)
	require.Contains(t, notes, "port-forward service/shop-pgdispatch 9464:9464")
}

func TestTheChartPassesOnWhatIsSet(t *testing.T) {
	t.Parallel()
	in, notes := install(t, valueSets["everything"])
	values, secrets := requireInstallation(t, in)
	for name, want := range map[string]string{
		"TEMPORAL_TLS_SERVER_CA_CERT_PATH": "/etc/pgdispatch/ca/temporal.crt",
		"TEMPORAL_TLS_CLIENT_KEY_PATH":     "/etc/pgdispatch/temporal/tls.key",
		"PGDISPATCH_DRAIN_TIMEOUT":         "60s", "PGDISPATCH_WORKERS": "20", "PGDISPATCH_METRICS_WORKSPACES": "10",
		"GOMEMLIMIT":       "1843MiB",
		"TEMPORAL_ADDRESS": "shop.a1b2c.tmprl.cloud:7233", "TEMPORAL_TLS": "true"} {
		require.Equal(t, want, values[name], name)
	}
	require.False(t, settings(t, values).Listen)
	require.Equal(t,
		map[string]string{"DATABASE_URL": "shop-db", "PGDISPATCH_OPERATOR_DATABASE_URL": "shop-web",
			"TEMPORAL_API_KEY":       "shop-temporal",
			"PGDISPATCH_ADMIN_TOKEN": "shop-tokens", "PGDISPATCH_VIEW_TOKEN": "shop-tokens"}, secrets)
	require.Equal(t, []string{"dispatcher", "dispatcher-migrate"}, []string{in.Deployment.Name, in.Job.Name})
	require.Contains(t, in.Deployment.Spec.Template.Spec.Containers[0].Image, "@sha256:0a0a")
	require.Equal(t, map[string]string{"team": "shop"}, intersection(in.Deployment.Spec.Template.Labels, "team"))
	require.Equal(t, int64(80), *in.Deployment.Spec.Template.Spec.TerminationGracePeriodSeconds)
	require.Equal(t, "prometheus", in.PodMonitor.Labels["release"])
	require.Equal(t, "shop.internal", *in.PodMonitor.Spec.PodMetricsEndpoints[0].TLSConfig.ServerName)
	require.True(t, slices.ContainsFunc(in.Deployment.Spec.Template.Spec.Volumes, func(v core.Volume) bool {
		return v.Secret != nil && v.Secret.SecretName == "shop-admin"
	}))
	require.Contains(t, notes, "open https://127.0.0.1:9464/ui/")
	require.Contains(t, notes, "get secret shop-tokens")

	in, notes = install(t, valueSets["minimal"])
	values, _ = requireInstallation(t, in)
	require.Equal(t, []string{"on", "on"},
		[]string{values["PGDISPATCH_ALLOW_INSECURE_TEMPORAL"], values["PGDISPATCH_ALLOW_INSECURE_DATABASE"]})
	require.Contains(t, notes, "WARNING: connections without verified TLS are allowed")
	require.Contains(t, notes, "run `pgdispatch migrate up` yourself")
	require.True(t, in.Job == nil && in.Service == nil && in.Budget == nil)
}

func intersection(all map[string]string, names ...string) map[string]string {
	found := map[string]string{}
	for _, name := range names {
		found[name] = all[name]
	}
	return found
}

func TestTheChartRefusesWrongValues(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"replicas: two":                 "at '/replicas': got string, want integer",
		"replica: 2":                    "additional properties 'replica' not allowed",
		"temporal: {address: temporal}": "at '/temporal/address': 'temporal' does not match pattern",
		"temporal: {tls: {enabled: false}}": "set temporal.allowInsecure to true " +
			"where you trust the network to Temporal",
		"temporal: {tls: {caKey: temporal.crt}}":            "set that too",
		"config: {PGDISPATCH_WORKER: 3}":                    "PGDISPATCH_WORKER",
		"config: {PGDISPATCH_ADMIN_TOKEN: 0123456789abcde}": "PGDISPATCH_ADMIN_TOKEN",
		"database: {secret: ''}":                            "at '/database/secret'",
		"image: {tag: 'a b'}":                               "at '/image/tag'",
		"resources: {limits: {memory: 500M}}":               "at '/resources/limits/memory'",
		"drainSeconds: 20s":                                 "at '/drainSeconds': got string, want integer",
		"service: {port: 0}":                                "at '/service/port'",
		"admin: {tls: {secret: A b}}":                       "at '/admin/tls/secret'",
		"config: {PGDISPATCH_ADMIN_CERT_FILE: /tls.crt}":    "PGDISPATCH_ADMIN_CERT_FILE",
		"extraEnv: [{value: a}]":                            "missing property 'name'",
	} {
		_, _, err := render(t, values)
		require.ErrorContains(t, err, want, values)
	}
}

// Variables that the chart sets, or reads from Secrets, cannot be set a second time.
func TestTheChartsConfigTakesEveryOtherSetting(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(chart, "values.schema.json"))
	require.NoError(t, err)
	var schema struct {
		Properties struct {
			Config struct {
				PropertyNames struct{ Enum []string }
			}
		}
	}
	require.NoError(t, json.Unmarshal(text, &schema))
	in, _ := install(t, valueSets["minimal"]+valueSets["TLS to replicas"])
	want := []string{}
	for _, o := range config.RunOptions {
		if _, set := in.Config.Data[o.Variable]; !set && !o.Secret() {
			want = append(want, o.Variable)
		}
	}
	require.Equal(t, want, schema.Properties.Config.PropertyNames.Enum)
}
