package main

import (
	"io"
	"net/http"
	"regexp"
	"testing"

	"github.com/pgdispatch/pgdispatch/internal/must"
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
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)).In(t)
	response := must.Get(http.DefaultClient.Do(request)).In(t)
	defer response.Body.Close()
	body := must.Get(io.ReadAll(response.Body)).In(t)
	require.Equal(t, http.StatusOK, response.StatusCode, url)
	return string(body)
}
