// Package logtest keeps what tests log.
package logtest

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
)

// Book is a slog.Handler that keeps all records.
type Book struct {
	mu      sync.Mutex
	records []slog.Record
}

// Enabled implements slog.Handler.
func (b *Book) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs implements slog.Handler.
func (b *Book) WithAttrs([]slog.Attr) slog.Handler { return b }

// WithGroup implements slog.Handler.
func (b *Book) WithGroup(string) slog.Handler { return b }

// Handle implements slog.Handler.
func (b *Book) Handle(_ context.Context, record slog.Record) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.records = append(b.records, record)
	return nil
}

// At returns the messages of a level's records, in order.
func (b *Book) At(level slog.Level) (messages []string) {
	b.each(func(record slog.Record, _ []slog.Attr) {
		if record.Level == level {
			messages = append(messages, record.Message)
		}
	})
	return messages
}

// Value returns an attribute of the first record with that message that has it, or "".
func (b *Book) Value(message, key string) (value string) {
	b.each(func(record slog.Record, attrs []slog.Attr) {
		for _, attr := range attrs {
			if record.Message == message && attr.Key == key {
				value = cmp.Or(value, attr.Value.String())
			}
		}
	})
	return value
}

// Errors returns the errors of a level's records, in order.
func (b *Book) Errors(level slog.Level) (errors []string) {
	b.each(func(record slog.Record, attrs []slog.Attr) {
		for _, attr := range attrs {
			if record.Level == level && attr.Key == "error" {
				errors = append(errors, attr.Value.String())
			}
		}
	})
	return errors
}

// Lines returns level, message and attributes of each record.
func (b *Book) Lines() (lines []string) {
	b.each(func(record slog.Record, attrs []slog.Attr) {
		line := record.Level.String() + " " + record.Message
		for _, attr := range attrs {
			line += " " + attr.String()
		}
		lines = append(lines, line)
	})
	return lines
}

func (b *Book) each(do func(record slog.Record, attrs []slog.Attr)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, record := range b.records {
		var attrs []slog.Attr
		record.Attrs(func(attr slog.Attr) bool {
			attrs = append(attrs, attr)
			return true
		})
		do(record, attrs)
	}
}
