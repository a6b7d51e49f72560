package replica

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestALargeHeapIsCollectedAsGoDoesItAndASmallOneMoreRarely(t *testing.T) {
	t.Parallel()
	require.Equal(t, 400, percentFor(3<<20))
	require.Equal(t, 100, percentFor(64<<20))
}

func TestHowOftenIsDecidedAnewAfterEachCollection(t *testing.T) {
	t.Parallel()
	set := make(chan int, 100)
	afterCollection(func(percent int) int { set <- percent; return 0 }, 400)
	require.Equal(t, 400, <-set)
	params := make([]byte, 64<<20)
	for range 2 {
		runtime.GC()
		require.Equal(t, 100, <-set)
	}
	runtime.KeepAlive(params)
}
