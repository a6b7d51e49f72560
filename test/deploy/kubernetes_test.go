// Package deploy_test checks the files in deploy/ against Kubernetes' types. cmd/pgdispatch checks them against the
// binary.
package deploy_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// Some tools ignore a misspelt or misplaced field of a manifest, others refuse it.
func TestManifestsHaveTheFieldsThatKubernetesKnows(t *testing.T) {
	t.Parallel()
	known := map[string]struct {
		version string
		object  any
	}{
		"deployment.yaml": {apps.SchemeGroupVersion.String(), &apps.Deployment{}},
		"disruption.yaml": {policy.SchemeGroupVersion.String(), &policy.PodDisruptionBudget{}},
		"migrate.yaml":    {batch.SchemeGroupVersion.String(), &batch.Job{}},
	}
	files, err := filepath.Glob("../../deploy/kubernetes/*.yaml")
	require.NoError(t, err)
	require.Len(t, files, len(known)+1, "and the kustomization, whose resources these are")
	for name, want := range known {
		text, err := os.ReadFile(filepath.Join("../../deploy/kubernetes", name))
		require.NoError(t, err)
		require.NoError(t, yaml.UnmarshalStrict(text, want.object), name)
		var kind struct{ APIVersion string }
		require.NoError(t, yaml.Unmarshal(text, &kind))
		require.Equal(t, want.version, kind.APIVersion, name)
		require.Error(t, yaml.UnmarshalStrict(append(text, "\nreplicas: 2\n"...), want.object), "it would say so")
	}
}
