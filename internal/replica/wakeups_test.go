package replica

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAReplicasOwnNamespaceIsAlwaysInUse(t *testing.T) {
	t.Parallel()
	r := &replica{namespace: "own"}
	require.Equal(t, []string{"own"}, r.namespacesInUse(), "before the first sweep")
	for _, row := range []struct{ named, want []string }{
		{nil, []string{"own"}},
		{[]string{""}, []string{"own"}},
		{[]string{"shop"}, []string{"own", "shop"}},
		{[]string{"shop", "", "own"}, []string{"own", "shop"}},
	} {
		r.sawNamespaces(row.named)
		require.Equal(t, row.want, r.namespacesInUse(), "%q", row.named)
	}
}
