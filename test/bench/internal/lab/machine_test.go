package lab

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseStatSurvivesOddNames(t *testing.T) {
	t.Parallel()
	s, err := parseStat("42 (a) S (b c) S 7 42 42 0 -1 4194560 1 2 3 4 150 50 30 20 20 0 1 0 100")
	require.NoError(t, err)
	require.Equal(t, procStat{parent: 7, own: 2 * time.Second, buried: 500 * time.Millisecond}, s)

	_, err = parseStat("nonsense")
	require.Error(t, err)
}

func TestReadStatOfThisProcess(t *testing.T) {
	t.Parallel()
	s, err := readStat(os.Getpid())
	require.NoError(t, err)
	require.Equal(t, os.Getppid(), s.parent)
}

func TestFsyncTimeIsMeasured(t *testing.T) {
	t.Parallel()
	took, err := fsyncTime(t.TempDir())
	require.NoError(t, err)
	require.Positive(t, took)
}
