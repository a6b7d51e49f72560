// Package deploy_test checks what installs pgdispatch. It renders deploy/ for Kubernetes with kustomize and Helm, and
// checks the result against Kubernetes' types. It reads that and the unit of systemd as the binary does, and runs
// .ci/need.
package deploy_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const base = "../../deploy/kubernetes"

// kustomize builds an overlay of the base. An empty one is the base itself.
func kustomize(t *testing.T, overlay string) installation {
	t.Helper()
	files := filesys.MakeFsInMemory()
	require.NoError(t, filepath.WalkDir(base, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		name, err := filepath.Rel(base, path)
		require.NoError(t, err)
		return files.WriteFile(filepath.Join("/base", name), text)
	}))
	require.NoError(t, files.WriteFile("/overlay/kustomization.yaml", []byte("resources: [../base]\n"+overlay)))
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, "/overlay")
	require.NoError(t, err)
	text, err := built.AsYaml()
	require.NoError(t, err)
	return read(t, string(text))
}

// Without the Prometheus operator a cluster rejects its kinds, and with them the whole base.
func TestTheBaseNeedsNoOperator(t *testing.T) {
	t.Parallel()
	in := kustomize(t, "")
	require.Nil(t, in.PodMonitor)
	require.Nil(t, in.Rule)
	_, secrets := requireInstallation(t, in)
	require.Greater(t, *in.Deployment.Spec.Replicas, int32(1), "one replica may be evicted")
	for _, name := range []string{"PGDISPATCH_ADMIN_TOKEN", "PGDISPATCH_VIEW_TOKEN", "PGDISPATCH_OPERATOR_DATABASE_URL"} {
		require.Contains(t, secrets, name, "the web view needs it")
	}
	for _, variable := range in.Deployment.Spec.Template.Spec.Containers[0].Env {
		require.True(t, variable.ValueFrom != nil || variable.Name == "GOMEMLIMIT", "%s belongs in the ConfigMap",
			variable.Name)
	}
	require.NotNil(t, in.Service)
	require.NotNil(t, in.Budget)
	require.NotNil(t, in.Job)
}

func TestTheBaseConnectsOnlyByVerifiedTLS(t *testing.T) {
	in := kustomize(t, "")
	values, _ := requireInstallation(t, in)
	requireVerified(t, values)
	for _, pod := range []string{in.Deployment.Spec.Template.Spec.Volumes[0].ConfigMap.Name,
		in.Job.Spec.Template.Spec.Volumes[0].ConfigMap.Name} {
		require.Equal(t, "pgdispatch-ca", pod)
	}
}

// alerts are the alerts that promtool tests.
func alerts(t *testing.T) monitoring.PrometheusRuleSpec {
	t.Helper()
	text, err := os.ReadFile("../../deploy/prometheus/alerts.yml")
	require.NoError(t, err)
	var spec monitoring.PrometheusRuleSpec
	require.NoError(t, yaml.UnmarshalStrict(text, &spec))
	require.NotEmpty(t, spec.Groups)
	return spec
}

func TestTheMonitoringComponentScrapesEachReplicaOnceAndHasTheAlerts(t *testing.T) {
	t.Parallel()
	in := kustomize(t, "namespace: shop\nnamePrefix: a-\ncomponents: [../base/monitoring]\n")
	requireInstallation(t, in)
	require.NotNil(t, in.PodMonitor)
	require.Equal(t, alerts(t), in.Rule.Spec)
	require.Equal(t, []string{"shop", "shop"}, []string{in.PodMonitor.Namespace, in.Rule.Namespace})
}

func TestTheTLSComponentEncryptsTheAdminPort(t *testing.T) {
	t.Parallel()
	for _, components := range []string{"../base/tls", "../base/monitoring, ../base/tls"} {
		in := kustomize(t, "namespace: shop\nnamePrefix: a-\ncomponents: ["+components+"]\n")
		values, _ := requireInstallation(t, in)
		require.Equal(t, "/etc/pgdispatch/admin/tls.crt", values["PGDISPATCH_ADMIN_CERT_FILE"])
		require.Equal(t, "20s", values["PGDISPATCH_DRAIN_TIMEOUT"], "the base's variables stay")
		volumes := in.Deployment.Spec.Template.Spec.Volumes
		at := slices.IndexFunc(volumes, func(v core.Volume) bool { return v.Name == "admin" })
		require.Equal(t, "pgdispatch-admin-tls", volumes[at].Secret.SecretName)
	}
}

func TestAMisspeltFieldIsRefused(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(base, "deployment.yaml"))
	require.NoError(t, err)
	object := &apps.Deployment{}
	require.NoError(t, yaml.UnmarshalStrict(text, object))
	require.ErrorContains(t, yaml.UnmarshalStrict(append(text, "\nreplicas: 2\n"...), object), "replicas")
}
