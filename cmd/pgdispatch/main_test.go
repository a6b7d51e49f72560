package main

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSignalsWithinASecondAreOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		signals, cancelled, ended := make(chan os.Signal), false, false
		go func() {
			interrupt(signals, func() { cancelled = true })
			ended = true
		}()
		send := func() {
			signals <- os.Interrupt
			synctest.Wait()
		}
		send()
		require.True(t, cancelled)
		time.Sleep(sameSignal - time.Millisecond)
		send()
		require.False(t, ended, "it is the same one")
		time.Sleep(time.Millisecond)
		send()
		require.True(t, ended)
	})
}
