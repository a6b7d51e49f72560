package temporal

import (
	"crypto/tls"
	"log/slog"
	"testing"

	"github.com/pgdispatch/pgdispatch/internal/local"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

func TestATemporalOffThisMachineMustBeVerified(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		address  string
		options  client.ConnectionOptions
		verified bool
	}{
		{"", client.ConnectionOptions{}, true},
		{"localhost:7233", client.ConnectionOptions{}, true},
		{"[::1]:7233", client.ConnectionOptions{}, true},
		{"unix:///run/temporal.sock", client.ConnectionOptions{}, true},
		{"dns:///localhost:7233", client.ConnectionOptions{}, true},
		{"temporal.example:7233", client.ConnectionOptions{}, false},
		{"dns:///temporal.example:7233", client.ConnectionOptions{}, false},
		{"temporal.example", client.ConnectionOptions{}, false},
		{"temporal.example:7233", client.ConnectionOptions{TLS: &tls.Config{}}, true},
		{"temporal.example:7233", client.ConnectionOptions{TLS: &tls.Config{}, TLSDisabled: true}, false},
		{"temporal.example:7233", client.ConnectionOptions{TLS: &tls.Config{InsecureSkipVerify: true}}, false},
	} {
		options := client.Options{HostPort: row.address, ConnectionOptions: row.options}
		require.NoError(t, Target{AllowUnverified: true}.verify(options))
		err := Target{}.verify(options)
		if row.verified {
			require.NoError(t, err, row)
			continue
		}
		require.ErrorIs(t, err, local.ErrUnverified, row)
		require.ErrorContains(t, err, "PGDISPATCH_ALLOW_INSECURE_TEMPORAL=on", row)
	}
}

func TestAHostNameWithoutAnAddressIsNamed(t *testing.T) {
	t.Parallel()
	connection, _, err := Target{Address: "nohost.invalid:7233", AllowUnverified: true}.Dial(slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(connection.Close)
	_, err = connection.WorkflowService().GetSystemInfo(t.Context(), &workflowservice.GetSystemInfoRequest{})
	require.ErrorContains(t, err, `TEMPORAL_ADDRESS is "nohost.invalid:7233": the host name does not resolve`)
}
