package config

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAMisspeltVariableIsNamedWithTheOneThatWasMeant(t *testing.T) {
	t.Parallel()
	for variable, want := range map[string]string{
		"PGDISPATCH_WORKER=50":              "PGDISPATCH_WORKERS",
		"PGDISPATCH_POLL_INTERVALL=1s":      "PGDISPATCH_POLL_INTERVAL",
		"pgdispatch_workers=50":             "PGDISPATCH_WORKERS",
		"PGDISPATCH_WORKERS_FILE=/run/x":    "PGDISPATCH_WORKERS",
		"PGDISPATCH_ADMIN_TOKEN_FLE=/run/x": "PGDISPATCH_ADMIN_TOKEN_FILE",
		"PGDISPATCH_DATABASE_URL=postgres:": "DATABASE_URL",
		"PGDISPATCH_TEMPORAL_ADDRESS=a:1":   "TEMPORAL_ADDRESS",
		"PGDISPATCH_PORT=9464":              "",
		"PGDISPATCH_COLOUR=blue":            "",
	} {
		found := UnknownVariables([]string{variable})
		require.Len(t, found, 1, variable)
		require.Equal(t, want, found[0].Nearest, variable)
	}
	require.Equal(t, "PGDISPATCH_WORKER is ignored: there is no such variable; did you mean PGDISPATCH_WORKERS?",
		UnknownVariable{"PGDISPATCH_WORKER", "PGDISPATCH_WORKERS"}.String())
}

func TestVariablesThatAreReadOrSetByOthersAreNotReported(t *testing.T) {
	t.Parallel()
	environment := []string{
		"PGDISPATCH_CONFIG=a", "PGDISPATCH_VIEW_TOKEN_FILE=a", "PGDISPATCH_EMPTY=", "PGHOST=db", "DATABASE_URL=a",
		"TEMPORAL_TLS=true",
		// Set by Kubernetes.
		"PGDISPATCH_SERVICE_HOST=10.0.0.1", "PGDISPATCH_ADMIN_SERVICE_PORT=80", "PGDISPATCH_SERVICE_PORT_HTTP=80",
		"PGDISPATCH_PORT=tcp://10.0.0.1:80", "PGDISPATCH_ADMIN_PORT_80_TCP=tcp://10.0.0.1:80",
		"PGDISPATCH_PORT_80_TCP_ADDR=10.0.0.1",
	}
	for _, o := range RunOptions {
		environment = append(environment, o.Variable+"=a")
	}
	require.Empty(t, UnknownVariables(environment))
	require.Len(t, UnknownVariables(append(slices.Clone(environment), "PGDISPATCH_SERVICE=a", "PGDISPATCH_LEASES=a")),
		2)
}
