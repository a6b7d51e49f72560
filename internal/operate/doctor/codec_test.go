package doctor

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/codectest"
	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

func TestDoctorJudgesTheCodecServer(t *testing.T) {
	t.Parallel()
	server := codectest.NewServer(false)
	t.Cleanup(server.Close)
	check := func(endpoint, tokenFile string, fails func(codectest.Call) int) Finding {
		server.Fail(fails)
		found := checkCodec(t.Context(),
			config.Config{Codec: temporal.CodecTarget{Endpoint: endpoint, TokenFile: tokenFile}}, "shop")
		require.Len(t, found, 1)
		require.Equal(t, "codec", found[0].Check)
		require.Equal(t, found[0].Severity == Fine, found[0].Remedy == "")
		return found[0]
	}
	require.Equal(t, ok("codec", "%s encodes and decodes", server.URL), check(server.URL, "", nil))

	unauthorized := check(server.URL, "", func(codectest.Call) int { return http.StatusUnauthorized })
	require.Equal(t, Problem, unauthorized.Severity)
	require.Contains(t, unauthorized.Finding, server.URL+": encode: it answers 401 Unauthorized")
	require.Contains(t, unauthorized.Remedy, "PGDISPATCH_CODEC_TOKEN_FILE")

	encodesOnly := check(server.URL, "", func(call codectest.Call) int {
		if call.Operation == "decode" {
			return http.StatusForbidden
		}
		return 0
	})
	require.Equal(t, Warning, encodesOnly.Severity)
	require.Contains(t, encodesOnly.Meaning, "not kept")

	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _ = r.Write(w) }))
	t.Cleanup(echo.Close)
	require.Equal(t, Problem, check(echo.URL, "", nil).Severity, "it answers with a request")
	transparent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"payloads":[{"metadata":{"encoding":"anNvbi9wbGFpbg=="},"data":"InBnZGlzcGF0Y2gi"}]}`))
	}))
	t.Cleanup(transparent.Close)
	require.Contains(t, check(transparent.URL, "", nil).Finding, "returns a payload as it is")

	require.Contains(t, check(server.URL, "/nowhere", nil).Finding, `PGDISPATCH_CODEC_TOKEN_FILE is "/nowhere"`)
}

// Not parallel: Temporal's own configuration comes from the process's environment.
func TestDoctorFindsACodecServerThatOnlyTemporalsConfigurationNames(t *testing.T) {
	t.Setenv("TEMPORAL_CODEC_ENDPOINT", "https://codec.example.com")
	found := checkCodec(t.Context(), config.Config{}, "shop")
	require.Len(t, found, 1)
	require.Equal(t, Warning, found[0].Severity)
	require.Contains(t, found[0].Finding, "https://codec.example.com")
	t.Setenv("TEMPORAL_CODEC_ENDPOINT", "")
	require.Empty(t, checkCodec(t.Context(), config.Config{}, "shop"))
}
