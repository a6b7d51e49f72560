// Package goldentest compares generated text with the committed files that have it. With the flag -update, which `make
// golden` sets, a test rewrites its files instead.
package goldentest

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "rewrite generated files instead of comparing them")

// Updating reports whether files are rewritten.
func Updating() bool { return *update }

// Require compares a file with its generated text.
func Require(t testing.TB, path, text string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return
	}
	committed, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(committed), text, "%s differs: run `make golden`, and read what changed", path)
}

// RequirePart compares the part of a file between two marks with its generated text.
func RequirePart(t testing.TB, path, begin, end, text string) {
	t.Helper()
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(page), begin)
	require.True(t, found, "%s lacks %q", path, begin)
	_, after, found := strings.Cut(rest, end)
	require.True(t, found, "%s lacks %q", path, end)
	Require(t, path, before+begin+text+end+after)
}
