package main

import (
	"fmt"
	"log/slog"
	"strings"

	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
)

// serverLogger returns the Temporal server's logger. An empty file means standard error.
func serverLogger(level, file string) (log.Logger, error) {
	switch level {
	case "off":
		return log.NewNoopLogger(), nil
	case "debug", "info", "warn", "error":
		return log.NewZapLogger(log.BuildZapLogger(log.Config{Level: level, Format: "console", OutputFile: file})), nil
	default:
		return nil, fmt.Errorf("unknown log level %q", level)
	}
}

// quietLogger discards logs. It is for a Temporal client whose errors are returned or shown elsewhere.
func quietLogger() sdklog.Logger { return sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)) }

// fatalPanics panics where the server would exit the process, for example when a port is taken. While the server is
// being constructed, the panic is turned into an error. Later it ends the process as well.
type fatalPanics struct{ log.Logger }

// Fatal panics with a fatalError.
func (l fatalPanics) Fatal(message string, tags ...tag.Tag) {
	var text strings.Builder
	text.WriteString(message)
	for _, t := range tags {
		_, _ = fmt.Fprintf(&text, ", %s: %v", t.Key(), t.Value())
	}
	panic(fatalError(text.String()))
}

// fatalError is the message that the server would have logged before exiting the process.
type fatalError string

// Error returns the message and its tags.
func (e fatalError) Error() string { return string(e) }
