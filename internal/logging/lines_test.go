package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/looptest"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/stretchr/testify/require"
)

// sink records each write, and fails after a number of bytes.
type sink struct {
	mu     sync.Mutex
	writes []string
	room   int // -1: endless
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(p)
	if s.room >= 0 {
		n = min(n, s.room)
		s.room -= n
	}
	if n > 0 {
		s.writes = append(s.writes, string(p[:n]))
	}
	if n < len(p) {
		return n, errors.New("no space left")
	}
	return n, nil
}

func (s *sink) makeRoom(bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room = bytes
}

func (s *sink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.writes)
}

// messages returns the messages of all lines, which must be whole.
func (s *sink) messages(t *testing.T) []string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var messages []string
	for line := range strings.Lines(strings.Join(s.writes, "")) {
		var parsed struct{ Msg string }
		require.NoError(t, json.Unmarshal([]byte(line), &parsed), "%q", line)
		messages = append(messages, parsed.Msg)
	}
	return messages
}

// collecting runs a test in a bubble with buffered lines.
func collecting(t *testing.T, test func(t *testing.T, out *sink, log *slog.Logger, stop func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		out := &sink{room: -1}
		lines := NewLines(out)
		stop := looptest.Run(t, lines.Run)
		synctest.Wait()
		test(t, out, lines.Logger(slog.LevelInfo), stop)
	})
}

func TestLinesAreWrittenTogetherWithinTheDelay(t *testing.T) {
	t.Parallel()
	collecting(t, func(t *testing.T, out *sink, log *slog.Logger, _ func()) {
		for round := 1; round <= 3; round++ {
			log.Info("first")
			time.Sleep(lineDelay - time.Millisecond)
			log.With("a", 1).WithGroup("g").Info("second")
			synctest.Wait()
			require.Equal(t, round-1, out.count(), "lines are buffered")
			time.Sleep(time.Millisecond)
			synctest.Wait()
			require.Equal(t, round, out.count(), "both are written at once")
			time.Sleep(time.Hour)
		}
		require.Equal(t, []string{"first", "second", "first", "second", "first", "second"}, out.messages(t))
	})
}

func TestAWarningIsWrittenAtOnceWithWhatWaits(t *testing.T) {
	t.Parallel()
	collecting(t, func(t *testing.T, out *sink, log *slog.Logger, _ func()) {
		log.Info("before")
		require.Zero(t, out.count())
		log.With("a", 1).WithGroup("g").Warn("warning")
		require.Equal(t, []string{"before", "warning"}, out.messages(t))
		log.Error("error")
		require.Equal(t, []string{"before", "warning", "error"}, out.messages(t))
	})
}

func TestLinesThatFillTheBufferAreWrittenAtOnce(t *testing.T) {
	t.Parallel()
	collecting(t, func(t *testing.T, out *sink, log *slog.Logger, _ func()) {
		for n := range 200 {
			log.Info(fmt.Sprint(n), "filler", strings.Repeat("x", 1000))
		}
		require.Equal(t, 3, out.count(), "of 200 KB")
		for _, write := range out.writes {
			require.LessOrEqual(t, len(write), linesSize)
			require.True(t, strings.HasSuffix(write, "\n"), "lines are whole")
		}
		log.Info("huge", "filler", strings.Repeat("x", 2*linesSize))
		messages := out.messages(t)
		require.Len(t, messages, 201)
		require.Equal(t, "huge", messages[200])
	})
}

// The signal ends Run. Lines logged during the shutdown must not be lost if the replica is killed before it exits.
func TestAStopWritesWhatWaitsAndDelaysNothingMore(t *testing.T) {
	t.Parallel()
	collecting(t, func(t *testing.T, out *sink, log *slog.Logger, stop func()) {
		log.Info("before")
		require.Zero(t, out.count())
		stop()
		require.Equal(t, []string{"before"}, out.messages(t))
		log.Info("Stopped")
		require.Equal(t, []string{"before", "Stopped"}, out.messages(t))
	})
}

func TestWhatWasLoggedIsWrittenWhenAReplicaFailsOrPanics(t *testing.T) {
	t.Parallel()
	out := &sink{room: -1}
	lines := NewLines(out)
	log := lines.Logger(slog.LevelInfo)
	boom := errors.New("boom")
	require.ErrorIs(t, lines.During(t.Context(), func() error { log.Info("fails"); return boom }), boom)
	require.Equal(t, []string{"fails"}, out.messages(t))
	require.Panics(t, func() { _ = lines.During(t.Context(), func() error { log.Info("panics"); panic(boom) }) })
	require.Equal(t, []string{"fails", "panics"}, out.messages(t))
}

func TestLinesOfSeveralStayWholeAndInOrder(t *testing.T) {
	t.Parallel()
	const loggers, each = 8, 2000
	out := &sink{room: -1}
	lines := NewLines(out)
	log := lines.Logger(slog.LevelInfo)
	require.NoError(t, lines.During(t.Context(), func() error {
		var all sync.WaitGroup
		for logger := range loggers {
			all.Go(func() {
				for n := range each {
					level := slog.LevelInfo
					if n%100 == 0 {
						level = slog.LevelWarn
					}
					log.Log(t.Context(), level, fmt.Sprint(logger, " ", n))
				}
			})
		}
		all.Wait()
		return nil
	}))
	next := make([]int, loggers)
	for _, message := range out.messages(t) {
		var logger, n int
		must.Get(fmt.Sscan(message, &logger, &n)).In(t)
		require.Equal(t, next[logger], n, "logger %d", logger)
		next[logger]++
	}
	for logger := range loggers {
		require.Equal(t, each, next[logger], "logger %d", logger)
	}
}

func TestLinesThatCannotBeWrittenAreWrittenLaterAndWhole(t *testing.T) {
	t.Parallel()
	collecting(t, func(t *testing.T, out *sink, log *slog.Logger, _ func()) {
		out.makeRoom(10) // half a line
		log.Warn("first")
		log.Info("second")
		require.Equal(t, 1, out.count())
		time.Sleep(10 * lineDelay)
		out.makeRoom(-1)
		time.Sleep(lineDelay)
		synctest.Wait()
		require.Equal(t, []string{"first", "second"}, out.messages(t))
	})
}

func TestWhatWaitsForAWriterThatFailsIsBounded(t *testing.T) {
	t.Parallel()
	collecting(t, func(t *testing.T, out *sink, log *slog.Logger, _ func()) {
		out.makeRoom(0)
		for n := range 1000 {
			log.Info(fmt.Sprint(n), "filler", strings.Repeat("x", 1000))
		}
		out.makeRoom(-1)
		log.Warn("there is room again")
		messages := out.messages(t)
		require.Greater(t, len(messages), 50, "the first lines are kept")
		require.Less(t, len(messages), 66, "lines beyond the buffer are lost, as without a buffer")
		for n, message := range messages[:len(messages)-1] {
			require.Equal(t, fmt.Sprint(n), message)
		}
		require.Equal(t, "there is room again", messages[len(messages)-1])
	})
}

func TestAnErrorIsLoggedOnOneLineWithoutControls(t *testing.T) {
	t.Parallel()
	out := &bytes.Buffer{}
	log := NewLines(out).Logger(slog.LevelInfo)
	log.With("component", "watcher").Error("Cannot record an end", "namespace", "shop", "error",
		errors.New("no gas\n\x00\u202eevil"))
	require.Contains(t, out.String(), `"component":"watcher","namespace":"shop","error":"no gas `+"\uFFFD\uFFFDevil"+`"}`)
}
