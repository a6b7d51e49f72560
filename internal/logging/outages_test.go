package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
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

func TestAnOutageOfPostgresIsLoggedOnceAMinuteAndItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &bytes.Buffer{}
		outages := NewOutages(slog.NewJSONHandler(out, nil))
		sweeper, presence := slog.New(outages).With("component", "sweeper"), slog.New(outages)
		lost := fmt.Errorf("sweep: %w", io.ErrUnexpectedEOF)
		for range 90 {
			sweeper.Error("Cannot sweep", "error", lost)
			presence.Warn("Cannot renew this replica's presence", "error", lost)
			time.Sleep(time.Second)
		}
		outages.Answered(t.Context())
		require.Equal(t, []string{"Cannot sweep", "Postgres does not answer; work continues when it does",
			"Postgres does not answer; work continues when it does", "Postgres answers again 90000"},
			messages(t, out, "after_ms"))

		sweeper.Error("Cannot sweep", "error", lost)
		outages.Answered(t.Context())
		require.Equal(t, []string{"Cannot sweep"}, messages(t, out, ""), "one lost connection is not an outage")
	})
}

func TestConnectionsLostOneAfterAnotherAreOneLineAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &bytes.Buffer{}
		outages := NewOutages(slog.NewJSONHandler(out, nil))
		sweeper, signaler := slog.New(outages).With("component", "sweeper"), slog.New(outages).With("component", "signaler")
		for range 31 {
			sweeper.Error("Cannot sweep", "error", io.ErrUnexpectedEOF)
			outages.Answered(t.Context())
			signaler.Warn("Cannot take signals", "error", io.ErrUnexpectedEOF)
			outages.Answered(t.Context())
			time.Sleep(2 * time.Second)
		}
		require.Equal(t, []string{"Cannot sweep", "Cannot sweep 59"}, messages(t, out, "repeated"))
	})
}

func TestARepeatedWarningIsLoggedOnceAMinuteAndALineAboutAnItemAlways(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		out := &bytes.Buffer{}
		log := slog.New(NewOutages(slog.NewJSONHandler(out, nil)))
		for range 61 {
			log.With("component", "a").Warn("Cannot look", "error", errors.New("no privilege"))
			log.With("component", "b").Warn("Cannot look", "error", errors.New("no privilege"))
			time.Sleep(time.Second)
		}
		require.Equal(t, []string{"Cannot look", "Cannot look", "Cannot look 59", "Cannot look 59"},
			messages(t, out, "repeated"))
		for range 3 {
			log.Error("Error processing queue item", "queue_item_id", 1, "error", io.EOF)
			log.Warn("Without an error")
		}
		require.Len(t, messages(t, out, ""), 6)
	})
}
