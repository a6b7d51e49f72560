package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The harness judges the product by its own statements and its own copy of the rules. It shares no code with it.
func TestTheHarnessImportsNothingOfTheProduct(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "./...").Output()
	require.NoError(t, err)
	for dependency := range strings.SplitSeq(string(out), "\n") {
		own := strings.HasPrefix(dependency, "github.com/pgdispatch/pgdispatch/test/chaos")
		require.True(t, own || !strings.HasPrefix(dependency, "github.com/pgdispatch/"), dependency)
	}
}
