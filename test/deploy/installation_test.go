package deploy_test

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/pgdispatch/pgdispatch/internal/config"
)

// drainMargin is the time between the end of a replica's drain and its exit; docs/settings.md promises five seconds.
const drainMargin = 5 * time.Second

// foreign are the variables in the deployment that belong to Temporal's SDK and Go.
var foreign = []string{"TEMPORAL_API_KEY", "TEMPORAL_TLS", "TEMPORAL_TLS_SERVER_CA_CERT_PATH",
	"TEMPORAL_TLS_SERVER_NAME",
	"TEMPORAL_TLS_CLIENT_CERT_PATH", "TEMPORAL_TLS_CLIENT_KEY_PATH", "GOMEMLIMIT"}

// installation holds the manifests of a rendering. Manifests that are not rendered are nil.
type installation struct {
	Deployment *apps.Deployment
	Job        *batch.Job
	Budget     *policy.PodDisruptionBudget
	Service    *core.Service
	Config     *core.ConfigMap
	PodMonitor *monitoring.PodMonitor
	Rule       *monitoring.PrometheusRule
}

// read reads rendered manifests, and rejects fields and kinds that Kubernetes does not know.
func read(t *testing.T, text string) installation {
	t.Helper()
	var in installation
	for document := range strings.SplitSeq(text, "\n---\n") {
		var kind meta.TypeMeta
		require.NoError(t, yaml.Unmarshal([]byte(document), &kind), document)
		into, known := map[string]any{
			"apps/v1 Deployment": &in.Deployment, "batch/v1 Job": &in.Job, "policy/v1 PodDisruptionBudget": &in.Budget,
			"v1 Service": &in.Service, "v1 ConfigMap": &in.Config,
			"monitoring.coreos.com/v1 PodMonitor": &in.PodMonitor, "monitoring.coreos.com/v1 PrometheusRule": &in.Rule,
		}[kind.APIVersion+" "+kind.Kind]
		if strings.TrimSpace(document) == "" {
			continue
		}
		require.True(t, known, "%+v in %q", kind, document)
		require.NoError(t, yaml.UnmarshalStrict([]byte(document), into), document)
	}
	require.NotNil(t, in.Deployment)
	require.NotNil(t, in.Config)
	return in
}

// variables returns, by name, a container's variables with values and those from Secrets. All must be known.
func variables(t *testing.T, container core.Container, options []config.Option) (values, secrets map[string]string) {
	t.Helper()
	known, secret := slices.Clone(foreign), []string{"TEMPORAL_API_KEY"}
	for _, o := range options {
		known = append(known, o.Variable)
		if o.Secret() {
			secret, known = append(secret, o.Variable), append(known, o.Variable+"_FILE")
		}
	}
	values, secrets = map[string]string{}, map[string]string{}
	for _, variable := range container.Env {
		require.Contains(t, known, variable.Name, "the binary reads no such variable")
		if variable.ValueFrom == nil {
			require.NotContains(t, secret, variable.Name, "the variable is a secret")
			values[variable.Name] = variable.Value
			continue
		}
		require.NotNil(t, variable.ValueFrom.SecretKeyRef, variable.Name)
		require.Equal(t, variable.Name, variable.ValueFrom.SecretKeyRef.Key)
		require.NotEmpty(t, variable.ValueFrom.SecretKeyRef.Name, variable.Name)
		secrets[variable.Name] = variable.ValueFrom.SecretKeyRef.Name
	}
	return values, secrets
}

// requirePod checks the fields common to replicas and the migration, and returns the only container.
func requirePod(t *testing.T, pod core.PodSpec, args ...string) core.Container {
	t.Helper()
	require.Len(t, pod.Containers, 1)
	c := pod.Containers[0]
	require.Equal(t, args, c.Args)
	require.True(t, *pod.SecurityContext.RunAsNonRoot)
	require.True(t, *c.SecurityContext.ReadOnlyRootFilesystem && !*c.SecurityContext.AllowPrivilegeEscalation)
	require.False(t, *pod.AutomountServiceAccountToken || *pod.EnableServiceLinks)
	require.Regexp(t, `^(ghcr\.io/pgdispatch|registry\.internal)/pgdispatch[:@]\S+$`, c.Image)

	volumes := map[string]bool{}
	for _, volume := range pod.Volumes {
		volumes[volume.Name] = true
	}
	for _, mount := range c.VolumeMounts {
		require.True(t, volumes[mount.Name] && mount.ReadOnly, mount.Name)
	}
	require.Len(t, c.VolumeMounts, len(pod.Volumes))

	require.False(t, c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero())
	limit := c.Resources.Limits.Memory().Value()
	at := slices.IndexFunc(c.Env, func(v core.EnvVar) bool { return v.Name == "GOMEMLIMIT" })
	require.GreaterOrEqual(t, at, 0, "GOMEMLIMIT")
	mebibytes, err := strconv.ParseInt(strings.TrimSuffix(c.Env[at].Value, "MiB"), 10, 64)
	require.NoError(t, err, c.Env[at].Value)
	require.InDelta(t, 0.9, float64(mebibytes<<20)/float64(limit), 0.01, "GOMEMLIMIT is a tenth below the limit")
	return c
}

// settings reads the configuration of the replicas as the binary does.
func settings(t *testing.T, values map[string]string) config.Config {
	t.Helper()
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	config.AddFlags(flags, config.RunOptions)
	c, err := config.Read(flags, func(name string) (string, bool) {
		value, ok := values[name]
		return value, ok
	}, config.RunOptions)
	require.NoError(t, err)
	return c
}

// requireInstallation checks that the binary understands the manifests and that they agree with each other. It returns
// the replicas' variables.
func requireInstallation(t *testing.T, in installation) (values, secrets map[string]string) {
	t.Helper()
	pod := in.Deployment.Spec.Template
	replica := requirePod(t, pod.Spec, "run")
	values, secrets = variables(t, replica, config.RunOptions)
	require.Equal(t, in.Config.Name, replica.EnvFrom[0].ConfigMapRef.Name)
	env := core.Container{}
	for name, value := range in.Config.Data {
		env.Env = append(env.Env, core.EnvVar{Name: name, Value: value})
	}
	more, _ := variables(t, env, config.RunOptions)
	maps.Copy(values, more)
	c := settings(t, values)
	require.Greater(t, time.Duration(*pod.Spec.TerminationGracePeriodSeconds)*time.Second, c.DrainTimeout+drainMargin)
	require.Contains(t, secrets, "DATABASE_URL")

	require.Equal(t, core.ContainerPort{Name: "admin", ContainerPort: 9464}, replica.Ports[0])
	require.Equal(t, ":9464", c.AdminAddr)
	require.Equal(t, []string{"/livez", "admin"},
		[]string{replica.LivenessProbe.HTTPGet.Path, replica.LivenessProbe.HTTPGet.Port.StrVal})
	require.Equal(t, []string{"/readyz", "admin"},
		[]string{replica.ReadinessProbe.HTTPGet.Path, replica.ReadinessProbe.HTTPGet.Port.StrVal})

	requireScheme(t, in, values)
	requireSelected(t, in)
	if in.Job != nil {
		_, owner := variables(t, requirePod(t, in.Job.Spec.Template.Spec, "migrate", "up"), config.DatabaseOptions)
		require.NotEqual(t, secrets["DATABASE_URL"], owner["DATABASE_URL"], "replicas do not own the schema")
	}
	return values, secrets
}

// requireScheme checks that probes and scrapes use TLS if the admin port does, and that its certificate is mounted.
func requireScheme(t *testing.T, in installation, values map[string]string) {
	t.Helper()
	pod, scrape := in.Deployment.Spec.Template, in.Deployment.Spec.Template.Annotations["prometheus.io/scheme"]
	monitored, replica := "", pod.Spec.Containers[0]
	if in.PodMonitor != nil {
		endpoint := in.PodMonitor.Spec.PodMetricsEndpoints[0]
		if endpoint.Scheme != nil {
			monitored = endpoint.Scheme.String()
		}
		require.Equal(t, monitored != "", endpoint.TLSConfig != nil)
		scrape = monitored
	}
	schemes := []string{string(replica.LivenessProbe.HTTPGet.Scheme),
		string(replica.ReadinessProbe.HTTPGet.Scheme), scrape}
	certificate := values["PGDISPATCH_ADMIN_CERT_FILE"]
	if certificate == "" {
		for _, scheme := range schemes {
			require.Contains(t, []string{"", "HTTP"}, scheme)
		}
		return
	}
	require.Equal(t, []string{"HTTPS", "HTTPS", "https"}, schemes)
	mounted := slices.ContainsFunc(replica.VolumeMounts, func(m core.VolumeMount) bool {
		return certificate == m.MountPath+"/tls.crt" && values["PGDISPATCH_ADMIN_KEY_FILE"] == m.MountPath+"/tls.key" &&
			slices.ContainsFunc(pod.Spec.Volumes, func(v core.Volume) bool {
				return v.Name == m.Name && v.Secret != nil && v.Secret.SecretName != ""
			})
	})
	require.True(t, mounted, certificate)
}

// requireSelected checks that every selector of pods selects the replicas, and not the migration.
func requireSelected(t *testing.T, in installation) {
	t.Helper()
	selectors := []meta.LabelSelector{*in.Deployment.Spec.Selector,
		*in.Deployment.Spec.Template.Spec.TopologySpreadConstraints[0].LabelSelector}
	if in.Budget != nil {
		selectors = append(selectors, *in.Budget.Spec.Selector)
	}
	if in.Service != nil {
		selectors = append(selectors, meta.LabelSelector{MatchLabels: in.Service.Spec.Selector})
		require.Equal(t, "admin", in.Service.Spec.Ports[0].TargetPort.StrVal)
		require.True(t, in.Service.Spec.PublishNotReadyAddresses, "the web view is reachable even if no replica is ready")
	}
	scraped := in.Deployment.Spec.Template.Annotations["prometheus.io/scrape"]
	if in.PodMonitor != nil {
		selectors = append(selectors, in.PodMonitor.Spec.Selector)
		require.Equal(t, "admin", *in.PodMonitor.Spec.PodMetricsEndpoints[0].Port)
		require.Equal(t, "/metrics", in.PodMonitor.Spec.PodMetricsEndpoints[0].Path)
		require.Empty(t, scraped, "pods would be scraped twice")
	} else {
		require.Equal(t, "true", scraped)
		require.Equal(t, "9464", in.Deployment.Spec.Template.Annotations["prometheus.io/port"])
	}
	for _, s := range selectors {
		selector, err := meta.LabelSelectorAsSelector(&s)
		require.NoError(t, err)
		require.False(t, selector.Empty())
		require.True(t, selector.Matches(labels.Set(in.Deployment.Spec.Template.Labels)), selector)
		if in.Job != nil {
			require.False(t, selector.Matches(labels.Set(in.Job.Spec.Template.Labels)), selector)
		}
	}
}

// requireVerified checks that the replicas connect to Postgres and Temporal by verified TLS only.
func requireVerified(t *testing.T, values map[string]string) {
	t.Helper()
	for name, value := range values {
		if regexp.MustCompile(`^TEMPORAL_TLS`).MatchString(name) {
			t.Setenv(name, value) // Temporal's SDK reads the environment itself
		}
	}
	c := settings(t, values)
	require.NoError(t, c.Check())
	c.Database.URL = "postgres://pgdispatch@db.example.com/app?sslmode=require"
	require.Error(t, c.Database.Verify())
	t.Setenv("TEMPORAL_TLS", "false")
	require.Error(t, c.Check())
}
