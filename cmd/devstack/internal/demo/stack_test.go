package demo

import (
	"net/http"
	"testing"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/stretchr/testify/require"
)

// A browser opens the link as Go's client does: user and password become basic authentication.
func TestTheLinkToTheWebViewHasTheTokenOfItsReplica(t *testing.T) {
	t.Parallel()
	const token = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	variables, link := webView("127.0.0.1:9464", token)
	require.Equal(t, []string{"PGDISPATCH_ADMIN_ADDR=127.0.0.1:9464", "PGDISPATCH_ADMIN_TOKEN=" + token}, variables)
	request := must.Get(http.NewRequest(http.MethodGet, link, nil)).In(t)
	require.Equal(t, "127.0.0.1:9464", request.URL.Host)
	require.Equal(t, "/ui/", request.URL.Path)
	password, _ := request.URL.User.Password()
	require.Equal(t, token, password)
}
