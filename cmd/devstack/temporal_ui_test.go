package main

import (
	"io"
	"net/http"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWebInterfaceServesItsPagesAndTheAPI(t *testing.T) {
	t.Parallel()
	ready, _ := temporalCommand(t, "--ui-addr", "127.0.0.1:0")

	page := get(t, ready.UI+"/")
	script := regexp.MustCompile(`/_app/[^"']+\.js`).FindString(page)
	require.NotEmpty(t, script, page)
	require.NotEmpty(t, get(t, ready.UI+script), "the binary contains the scripts")
	require.Contains(t, get(t, ready.UI+"/api/v1/namespaces"), `"default"`)
}

func get(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode, url)
	return string(body)
}
