package temporal

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAnAPIKeyIsReadAnewEveryFewSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "key")
		write := func(key string) { require.NoError(t, os.WriteFile(path, []byte(key), 0o600)) }
		write("first\n")
		var log bytes.Buffer
		f := apiKeyFile(path, slog.New(slog.NewTextHandler(&log, nil)))
		require.NoError(t, f.open())
		requireKey := func(want string) {
			t.Helper()
			key, err := f.get(t.Context())
			require.NoError(t, err)
			require.Equal(t, want, key)
		}
		write("second\n")
		requireKey("first")
		time.Sleep(secretInterval)
		requireKey("second")
		require.Contains(t, log.String(), "Temporal's API key has changed")
		require.NotContains(t, log.String(), "second")
		for range 2 {
			require.NoError(t, os.RemoveAll(path))
			time.Sleep(secretInterval)
			requireKey("second")
		}
		write("")
		time.Sleep(secretInterval)
		requireKey("second")
		require.Equal(t, 1, bytes.Count(log.Bytes(),
			[]byte("Cannot read Temporal's API key anew: going on with the last")), "once")
		write("third")
		time.Sleep(secretInterval)
		requireKey("third")
	})
}
