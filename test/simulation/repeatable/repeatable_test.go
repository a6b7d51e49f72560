package repeatable

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEdited_RefusesAFileThatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	source := t.TempDir()
	edits := []edit{{file: "proc.go", old: "10ms", new: "1h"}}
	path := filepath.Join(source, "proc.go")

	_, err := edited(source, edits)
	require.ErrorIs(t, err, ErrUnknownGo, "the file is missing")

	require.NoError(t, os.WriteFile(path, []byte("after 10ms, and 10ms"), 0o600))
	_, err = edited(source, edits)
	require.ErrorIs(t, err, ErrUnknownGo)
	require.ErrorContains(t, err, `proc.go has "10ms" 2 times instead of 1`)

	require.NoError(t, os.WriteFile(path, []byte("after 10ms"), 0o600))
	texts, err := edited(source, edits)
	require.NoError(t, err)
	require.Equal(t, map[string]string{path: "after 1h"}, texts)
}

func TestEdited_FitsTheInstalledGo(t *testing.T) {
	t.Parallel()
	source, _, err := environment(t.Context(), ".")
	require.NoError(t, err)
	texts, err := edited(source, edits)
	require.NoError(t, err)
	require.Contains(t, texts[filepath.Join(source, "runtime/rand.go")], "func SimulateFrom(seed uint64)")
}

func TestWriteOverlay_KeepsTheOverlayOfGoflags(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	mutant := filepath.Join(t.TempDir(), "mutant.json")
	require.NoError(t, os.WriteFile(mutant, []byte(`{"Replace": {"/product/loop.go": "/tmp/loop.go"}}`), 0o600))
	flags := "-mod=mod -overlay=" + mutant

	list, err := writeOverlay(map[string]string{"/go/src/runtime/proc.go": "package runtime"}, flags)
	require.NoError(t, err)
	text, err := os.ReadFile(list)
	require.NoError(t, err)
	require.Contains(t, string(text), `"/product/loop.go": "/tmp/loop.go"`)
	require.Contains(t, string(text), `"/go/src/runtime/proc.go": "`+filepath.Dir(list))
	require.Equal(t, "-mod=mod", withoutOverlay(flags))

	_, err = writeOverlay(nil, "-overlay=/missing.json")
	require.ErrorIs(t, err, os.ErrNotExist)
}
