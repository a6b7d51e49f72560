// Package looptest runs components, whose one blocking Run returns when its context ends, for tests.
package looptest

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Run runs a component until the test ends, or until stop ends it and waits for its return, which must be no error.
func Run(t testing.TB, component func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- component(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	t.Cleanup(stop)
	return stop
}

// Pass lets time pass in a synctest bubble, and waits until all goroutines are idle.
func Pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
