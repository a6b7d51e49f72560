package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

// messages returns the messages of a JSON log, with an attribute if the line has it.
func messages(t *testing.T, out *bytes.Buffer, attribute string) (all []string) {
	t.Helper()
	for line := range strings.Lines(out.String()) {
		var record map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &record))
		text := record["msg"].(string)
		if value, found := record[attribute]; found {
			text += fmt.Sprintf(" %v", value)
		}
		all = append(all, text)
	}
	out.Reset()
	return all
}

// trying runs a test in a bubble, with a log that knows outages and what it has written.
func trying(t *testing.T, test func(t *testing.T, out *bytes.Buffer, outages *Outages, log *slog.Logger)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &bytes.Buffer{}
		outages := NewOutages(slog.NewJSONHandler(out, nil))
		test(t, out, outages, slog.New(outages))
	})
}

func TestAnOutageOfPostgresIsLoggedOnceAMinuteAndItsEnd(t *testing.T) {
	trying(t, func(t *testing.T, out *bytes.Buffer, outages *Outages, presence *slog.Logger) {
		sweeper := presence.With("component", "sweeper")
		lost := fmt.Errorf("sweep: %w", io.ErrUnexpectedEOF)
		outages.Answered(t.Context())
		for n := range 90 {
			sweeper.Error("Cannot sweep", "error", lost)
			presence.Warn("Cannot renew this replica's presence", "error", lost)
			presence.Warn("Cannot record an execution's end", "execution_id", n, "error", lost)
			presence.With("component", "listener").Warn("Listener lost its connection", "error", lost)
			time.Sleep(time.Second)
		}
		outages.Answered(t.Context())
		require.Contains(t, out.String(), `"error":"sweep: unexpected EOF","remedy":"see whether`)
		require.Equal(t, []string{"Postgres does not answer; work continues when it does",
			"Postgres does not answer; work continues when it does", "Postgres answers again 90000"},
			messages(t, out, "after_ms"))

		sweeper.Error("Cannot sweep", "error", lost)
		outages.Answered(t.Context())
		require.Empty(t, messages(t, out, ""), "it may be the beginning of an outage")
		time.Sleep(time.Second)
		outages.Answered(t.Context())
		require.Equal(t, []string{"Cannot sweep"}, messages(t, out, ""), "one lost connection is not an outage")
	})
}

func TestAServerThatGoesAwayConnectionByConnectionIsOneOutage(t *testing.T) {
	trying(t, func(t *testing.T, out *bytes.Buffer, outages *Outages, log *slog.Logger) {
		sweeper, listener := log.With("component", "sweeper"), log.With("component", "listener")
		outages.Answered(t.Context())
		listener.Warn("Listener lost its connection", "error", io.ErrUnexpectedEOF)
		time.Sleep(time.Millisecond)
		outages.Answered(t.Context())
		for range 3 {
			sweeper.Error("Cannot sweep", "error", io.ErrUnexpectedEOF)
			time.Sleep(time.Second)
		}
		outages.Answered(t.Context())
		require.Equal(t, []string{"Postgres does not answer; work continues when it does", "Postgres answers again 3000"},
			messages(t, out, "after_ms"))
	})
}

func TestConnectionsLostOneAfterAnotherAreOneLineAMinute(t *testing.T) {
	trying(t, func(t *testing.T, out *bytes.Buffer, outages *Outages, log *slog.Logger) {
		sweeper, signaler := log.With("component", "sweeper"), log.With("component", "signaler")
		for range 31 {
			sweeper.Error("Cannot sweep", "error", io.ErrUnexpectedEOF)
			outages.Answered(t.Context())
			signaler.Warn("Cannot take signals", "error", io.ErrUnexpectedEOF)
			outages.Answered(t.Context())
			time.Sleep(2 * time.Second)
		}
		outages.Answered(t.Context())
		require.Equal(t, []string{"Cannot sweep", "Cannot sweep 59"}, messages(t, out, "repeated"))
	})
}

func TestARepeatedWarningIsLoggedOnceAMinuteAndALineAboutAnItemAlways(t *testing.T) {
	trying(t, func(t *testing.T, out *bytes.Buffer, outages *Outages, log *slog.Logger) {
		for range 61 {
			log.With("component", "a").Warn("Cannot look", "error", errors.New("no privilege"))
			log.With("component", "b").Warn("Cannot look", "error", errors.New("no privilege"))
			time.Sleep(time.Second)
		}
		require.Equal(t, []string{"Cannot look", "Cannot look", "Cannot look 59", "Cannot look 59"},
			messages(t, out, "repeated"))
		for range 3 {
			log.Error("Error processing queue item", "queue_item_id", 1, "error", errors.New("refused"))
			log.Warn("Without an error")
		}
		require.Len(t, messages(t, out, ""), 6)
	})
}

func TestAServerThatIsStoppedIsAnOutageAndASlowStatementIsNot(t *testing.T) {
	trying(t, func(t *testing.T, out *bytes.Buffer, outages *Outages, log *slog.Logger) {
		outages.Answered(t.Context())
		silent := func() error {
			ctx, cancel := postgres.Bound(t.Context(), time.Nanosecond, "finish")
			defer cancel()
			<-ctx.Done()
			return postgres.Explain(ctx, nil, "finish", ctx.Err())
		}
		for n := range 20 {
			log.Warn("Cannot record an execution's end", "execution_id", n, "error", silent())
			time.Sleep(time.Second)
		}
		outages.Answered(t.Context())
		require.Equal(t, []string{"Postgres does not answer; work continues when it does", "Postgres answers again"},
			messages(t, out, ""))
		for range 20 {
			log.Warn("Cannot look", "error", silent())
			outages.Answered(t.Context())
			time.Sleep(time.Second)
		}
		require.Equal(t, []string{"Cannot look"}, messages(t, out, ""))
		codec := &url.Error{Op: "Post", URL: "http://codec", Err: &net.OpError{Op: "dial", Err: io.EOF}}
		for range 20 {
			log.Error("The codec server does not encode", "error", codec)
			time.Sleep(time.Second)
		}
		require.Equal(t, []string{"The codec server does not encode"}, messages(t, out, ""), "it is not Postgres")
	})
}
