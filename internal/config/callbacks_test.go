package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCallbacksAreConfiguredWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	const url, address = "https://pgdispatch.example.com/callbacks", ":9465"
	require.NoError(t, Config{}.checkCallbacks())
	require.NoError(t, Config{CallbackURL: url, CallbackAddr: address}.checkCallbacks())
	require.ErrorContains(t, Config{CallbackURL: url}.checkCallbacks(), "PGDISPATCH_CALLBACK_ADDR")
	require.ErrorContains(t, Config{CallbackAddr: address}.checkCallbacks(), "PGDISPATCH_CALLBACK_URL")

	for _, bad := range []string{"pgdispatch.example.com", "ftp://pgdispatch.example.com", "https://",
		"https://ann:secret@pgdispatch.example.com/", "https://a/#b",
		"https://pgdispatch.example.com/" + strings.Repeat("x", maxCallbackURL), "http://[::1"} {
		var into string
		require.Error(t, parseCallbackURL(bad, &into), bad)
	}
}
