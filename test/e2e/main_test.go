// Package e2e tests the binary: replicas and commands, on a real Postgres and beside a real Temporal server.
package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql/sqltest"
	harness "github.com/pgdispatch/pgdispatch/test/internal/stack"
)

const checkout = "../.."

// directory has what the tests share. TestMain makes and removes it.
var directory string

func TestMain(m *testing.M) {
	var err error
	if directory, err = os.MkdirTemp("", "pgdispatch-e2e-*"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := sqltest.Run(m)
	if temporalServer != nil {
		_ = temporalServer.Process().Kill()
	}
	_ = os.RemoveAll(directory)
	os.Exit(code)
}

var built = sync.OnceValues(func() (path string, err error) {
	path = filepath.Join(directory, "pgdispatch")
	return path, harness.Build(checkout, path)
})

// binary returns the path of pgdispatch, which the first call builds.
func binary(t testing.TB) string {
	t.Helper()
	path, err := built()
	require.NoError(t, err)
	return path
}

// temporalServer is the one real Temporal server of this test process.
var temporalServer *harness.Temporal

var startTemporal = sync.OnceValue(func() (err error) {
	temporalServer, err = harness.StartTemporal(checkout, directory)
	return err
})

// temporalAddress returns the address of a real Temporal server, which the first call starts.
func temporalAddress(t testing.TB) string {
	t.Helper()
	require.NoError(t, startTemporal())
	return temporalServer.Address()
}

func readPage(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(checkout, path))
	require.NoError(t, err)
	return string(text)
}

// section returns the text below a heading of a page.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	_, rest, found := strings.Cut(page, "\n## "+heading+"\n")
	require.True(t, found, heading)
	rest, _, _ = strings.Cut(rest, "\n## ")
	return rest
}
