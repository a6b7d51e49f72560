package dispatch

import (
	"context"
	"errors"
	"strconv"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Outcome is what an attempt to start a workflow means for its item and for the dispatcher.
type Outcome int

// The outcomes.
const (
	// Started: Temporal has the workflow.
	Started Outcome = iota
	// Permanent: this request can never succeed. The item fails; the dispatcher goes on.
	Permanent
	// Retryable: a failure of this item alone, which may pass. It is counted, up to the definition's max_attempts.
	Retryable
	// NotSent: the attempt ended before anything was sent. Nothing is counted.
	NotSent
	// Blocked: Temporal refuses everything that this dispatcher asks, and a person must mend it: the namespace, the
	// permission, the version. Nothing was started and nothing is counted; the dispatcher pauses and probes.
	Blocked
	// Unreached: there was no connection to Temporal to send anything on. Nothing was started and nothing is counted; the
	// dispatcher pauses and probes.
	Unreached
	// Throttled: Temporal refuses for now because too much is asked of it, by whomever. The item keeps its slot, because a part
	// of the request may have been carried out, and nothing is counted; the dispatcher starts fewer in a second.
	Throttled
	// Unanswered: the request was sent and may have been carried out: an outage, an overload, a timeout. The item keeps
	// its slot and nothing is counted; the dispatcher pauses and probes.
	Unanswered
)

// String returns the outcome's name in logs.
func (o Outcome) String() string {
	return [...]string{"started", "permanent", "retryable", "not sent", "blocked", "unreached", "throttled", "unanswered"}[o]
}

// systemic: it says something about Temporal, and nothing about the item.
func (o Outcome) systemic() bool { return o >= Blocked }

// Errors made on this side of the wire.
type (
	// permanentError is one of the request itself.
	permanentError struct{ error }
	// panicError is a failure of the item's own, as far as one can know.
	panicError struct{ error }
	// notSentError ended a hand-over before anything was sent.
	notSentError struct{ error }
	// unreachedError found no connection to send a request on.
	unreachedError struct{ error }
)

func (e permanentError) Unwrap() error { return e.error }
func (e notSentError) Unwrap() error   { return e.error }
func (e unreachedError) Unwrap() error { return e.error }

// Classify says what the error of a start means. It is a pure function of the error, and the only place that knows
// Temporal's errors.
func Classify(err error) Outcome {
	if err == nil {
		return Started
	}
	var permanent permanentError
	var panicked panicError
	var notSent notSentError
	var unreached unreachedError
	var exhausted *serviceerror.ResourceExhausted
	switch {
	case errors.As(err, &permanent):
		return Permanent
	case errors.As(err, &panicked):
		return Retryable
	case errors.As(err, &notSent):
		return NotSent
	case errors.As(err, &unreached):
		return Unreached
	case errors.As(err, &exhausted) && exhausted.Cause == enumspb.RESOURCE_EXHAUSTED_CAUSE_BUSY_WORKFLOW:
		return Retryable
	case isBlocked(err):
		return Blocked
	case isPassing(err):
		return Unanswered
	}
	return classifyCode(code(err), err.Error())
}

// isBlocked knows the errors whose type says more than their code.
func isBlocked(err error) bool {
	var (
		namespaceNotFound *serviceerror.NamespaceNotFound
		namespaceState    *serviceerror.NamespaceInvalidState
		clientVersion     *serviceerror.ClientVersionNotSupported
		serverVersion     *serviceerror.ServerVersionNotSupported
	)
	return errors.As(err, &namespaceNotFound) || errors.As(err, &namespaceState) ||
		errors.As(err, &clientVersion) || errors.As(err, &serverVersion)
}

// isPassing knows the errors whose code alone would say something else.
func isPassing(err error) bool {
	var notActive *serviceerror.NamespaceNotActive // during a failover between clusters
	return errors.As(err, &notActive) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

func classifyCode(code codes.Code, text string) Outcome {
	switch code {
	case codes.InvalidArgument, codes.AlreadyExists, codes.FailedPrecondition, codes.OutOfRange:
		return Permanent
	case codes.ResourceExhausted:
		// gRPC's own error, and not Temporal's: the message is larger than the server takes.
		if strings.Contains(text, "larger than max") {
			return Permanent
		}
		return Throttled
	case codes.Internal:
		// Made by gRPC on this side: nothing was sent.
		if strings.Contains(text, "error while marshaling") {
			return Permanent
		}
		return Unanswered
	case codes.NotFound, codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented:
		return Blocked
	default:
		return Unanswered
	}
}

// remedy says what a person can do about the error of a start; "": nothing, or nobody knows.
func remedy(err error, namespace string) string {
	var missing *serviceerror.NamespaceNotFound
	switch {
	case errors.As(err, &missing):
		return "register it (temporal operator namespace create --namespace " + strconv.Quote(namespace) +
			"), or correct workflow_definitions.namespace or TEMPORAL_NAMESPACE; waiting items then run by themselves"
	case code(err) == codes.PermissionDenied:
		return "allow the API key or certificate of pgdispatch to start workflows in this namespace"
	case code(err) == codes.Unauthenticated:
		return "correct TEMPORAL_API_KEY or the client certificate, and restart the replicas"
	default:
		return ""
	}
}

// isForbidden: Temporal answers, and does not do this for whoever asks.
func isForbidden(err error) bool {
	switch code(err) {
	case codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented:
		return true
	default:
		return false
	}
}

// code finds an error's gRPC code behind any number of wrappings.
func code(err error) codes.Code {
	var service serviceerror.ServiceError
	if errors.As(err, &service) {
		return service.Status().Code()
	}
	var grpc interface{ GRPCStatus() *status.Status }
	if errors.As(err, &grpc) {
		return grpc.GRPCStatus().Code()
	}
	return codes.Unknown
}
