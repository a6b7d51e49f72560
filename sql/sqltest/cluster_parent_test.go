package sqltest

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDefaultParent_IsInMemoryOnlyForDataThatNeedNotSurvive(t *testing.T) {
	t.Setenv("TMPDIR", "")
	memory := os.TempDir()
	if freeBytes(memoryDir) >= memoryEnough {
		memory = memoryDir
	}
	require.Equal(t, memory, defaultParent(map[string]string{"fsync": "off"}))
	require.Equal(t, os.TempDir(), defaultParent(map[string]string{"fsync": "on"}))

	t.Setenv("TMPDIR", "/var/tmp")
	require.Equal(t, "/var/tmp", defaultParent(map[string]string{"fsync": "off"}))
}
