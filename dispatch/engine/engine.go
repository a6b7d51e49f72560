// Package engine says what the start of a workflow came to, in words that hold for Temporal and for any other engine
// that recognises a repeated start.
package engine

// Outcome is the result of an attempt to start a workflow, for its item and for the dispatcher.
type Outcome int

// The outcomes.
const (
	// Started means that the engine has the workflow.
	Started Outcome = iota
	// Permanent means that this request can never succeed. The item fails and the dispatcher continues.
	Permanent
	// Forgotten means that an earlier start was never answered, and that its workflow may have ended so long ago that the
	// engine has forgotten it: a start might run it twice. The item fails.
	Forgotten
	// Abandoned means that the item's starts failed for minutes while others were accepted, or that a person gave it up,
	// and that the engine does not have its workflow. The item fails.
	Abandoned
	// Missing means that the item is to fail, that an earlier start may have been carried out, and that the engine does
	// not find its workflow. The item keeps its slot, is looked up again, and fails once all answers of a minute agree.
	Missing
	// Retryable means a failure of this item alone, which may be temporary. It counts toward the definition's
	// max_attempts.
	Retryable
	// Unregistered means that the request names something that is not registered, such as a search attribute. It may be
	// shortly, or the engine may not have noticed it yet. It counts like Retryable, and at least some minutes are allowed.
	Unregistered
	// Panicked means that the attempt panicked. It counts like Retryable, and the request may have been sent.
	Panicked
	// Busy means that another request works on this item's workflow: often an earlier start of it that was not answered.
	// The item keeps its slot and is tried again after a moment. Nothing is counted.
	Busy
	// NotSent means that the attempt ended before anything was sent. Nothing is counted.
	NotSent
	// Behind means that another item of the same workflow ID is to be started first. Nothing was sent, and nothing is
	// counted. The item is tried again after a moment.
	Behind
	// Blocked means that the engine refuses the request until a person fixes the namespace, the permission or the version.
	// Nothing was started. If that happens to several items in a row, the dispatcher pauses and probes. Otherwise the item
	// waits for another try, and keeps its slot if others are accepted. That holds for the next three, too.
	Blocked
	// Unreached means that there was no connection to the engine. Nothing was started.
	Unreached
	// Throttled means that the engine limits the rate of requests, of this or any other client. The item keeps its slot,
	// because a part of the request may have been carried out. If that happens to several items, the dispatcher lowers its
	// rate of starts.
	Throttled
	// Unanswered means that the request was sent and may have been carried out: an outage, an overload, a timeout. The
	// item keeps its slot.
	Unanswered
)

// String returns the outcome's name for logs and metrics.
func (o Outcome) String() string {
	return [...]string{"started", "permanent", "forgotten", "abandoned", "missing", "retryable", "unregistered",
		"panic", "busy", "not sent", "behind", "blocked", "unreached", "throttled", "unanswered"}[o]
}

// IsSystemic reports whether the outcome is about the engine rather than the item.
func (o Outcome) IsSystemic() bool { return o >= Blocked }

// Shared is implemented by errors that concern a whole namespace, whatever the item: for example, that it does not
// exist.
type Shared interface{ Shared() }

// Told is implemented by errors of a source that logs itself when it begins and ends to fail, and that also fails
// without an item: the error says nothing about the item.
type Told interface{ Told() }
