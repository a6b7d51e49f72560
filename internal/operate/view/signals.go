package view

import (
	"fmt"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

// LateSignal is how long a signal may be undelivered before it becomes a concern.
const LateSignal = time.Minute

// SignalOf describes a signal to the item's workflow, and its progress.
func SignalOf(i operate.Item, s operate.Signal) string {
	text := fmt.Sprintf("signal %q sent by %s; ", s.Name, s.SentBy)
	switch {
	case s.State == "DELIVERED" && s.SettledAt != nil:
		return text + "accepted by Temporal after " + Span(s.SettledAt.Sub(s.SentAt))
	case s.State == "GIVEN_UP":
		return text + "given up: " + s.Error
	case s.Waits && (i.Status == "PENDING" || i.Status == "CLAIMED"):
		return text + "waits for the workflow's start"
	case s.Waits:
		return text + "waits for an earlier signal"
	case s.Error != "":
		return text + "not delivered yet: " + s.Error
	}
	return text + "not delivered yet"
}

// concern adds a Concern if it is one.
type concern func(is bool, severity Severity, remedy, format string, args ...any)

func lateSignal(d operate.Depth, add concern) {
	add(d.OldestSignal != nil && *d.OldestSignal > LateSignal, Warning, "`pgdispatch executions signals --state open`",
		"A signal to a workflow has not been delivered for %s.", SpanOf(d.OldestSignal))
}

func givenUpSignals(d operate.Depth, add concern) {
	add(d.SignalsGivenUp > 0, Notice, "`pgdispatch executions signals --state given-up`, then `resend`",
		"%s given up in the last day.",
		capital(Number(d.SignalsGivenUp)+plural(d.SignalsGivenUp, " signal to a workflow was", " signals to workflows were")))
}
