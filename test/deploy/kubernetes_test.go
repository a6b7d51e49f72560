// Package deploy_test holds what is in deploy/ against those who read it. cmd/pgdispatch holds it against the binary.
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

// A field that is misspelt or stands in the wrong place is ignored by some who apply a manifest, and refused by others.
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
