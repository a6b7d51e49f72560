package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// helpers are allowed imports: they run processes, read files and pass bytes on, and contain none of the product's
// logic.
var helpers = []string{
	"github.com/pgdispatch/pgdispatch/internal/process",
	"github.com/pgdispatch/pgdispatch/test/internal/command",
	"github.com/pgdispatch/pgdispatch/test/internal/pooler",
	"github.com/pgdispatch/pgdispatch/test/internal/proxy",
	"github.com/pgdispatch/pgdispatch/test/internal/queries",
	"github.com/pgdispatch/pgdispatch/test/internal/stack",
}

// The harness judges the product by its own statements and its own copy of the rules. It shares no code with it.
func TestTheHarnessImportsNothingOfTheProduct(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "./...").Output()
	require.NoError(t, err)
	for dependency := range strings.SplitSeq(strings.TrimSpace(string(out)), "\n") {
		own := strings.HasPrefix(dependency, "github.com/pgdispatch/pgdispatch/test/chaos")
		product := strings.HasPrefix(dependency, "github.com/pgdispatch/") && !slices.Contains(helpers, dependency)
		require.True(t, own || !product, dependency)
	}
}
