package temporal

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// outcomeError is an error of this side of the connection, whose outcome is known.
type outcomeError struct {
	error
	outcome engine.Outcome
}

func (e outcomeError) Unwrap() error { return e.error }

// As marks err, so that Classify returns outcome for it.
func As(outcome engine.Outcome, err error) error { return outcomeError{err, outcome} }

// Classify returns what the error of a start means. It is a pure function, and the only place that knows Temporal's
// errors.
func Classify(err error) engine.Outcome {
	if err == nil {
		return engine.Started
	}
	var marked outcomeError
	var exhausted *serviceerror.ResourceExhausted
	switch {
	case errors.As(err, &marked):
		return marked.outcome
	case errors.As(err, &exhausted) && exhausted.Cause == enumspb.RESOURCE_EXHAUSTED_CAUSE_BUSY_WORKFLOW:
		return engine.Busy
	case isBlocked(err):
		return engine.Blocked
	case isPassing(err):
		return engine.Unanswered
	}
	return classifyCode(Code(err), err.Error())
}

// isBlocked reports whether err is an engine.Blocked error that its gRPC code alone does not identify.
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

// sharedError concerns a whole namespace. It implements engine.Shared.
type sharedError struct{ error }

func (e sharedError) Unwrap() error { return e.error }
func (e sharedError) Shared()       {}

// isPassing reports whether err is a temporary error that its gRPC code would misclassify.
func isPassing(err error) bool {
	var notActive *serviceerror.NamespaceNotActive // during a failover between clusters
	return errors.As(err, &notActive) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

func classifyCode(code codes.Code, text string) engine.Outcome {
	switch code {
	case codes.InvalidArgument:
		if isUnregistered(text) {
			return engine.Unregistered
		}
		return engine.Permanent
	case codes.AlreadyExists, codes.FailedPrecondition, codes.OutOfRange:
		return engine.Permanent
	case codes.ResourceExhausted:
		if isTooLarge(text) {
			return engine.Permanent
		}
		return engine.Throttled
	case codes.Internal:
		// gRPC made this error on the client: nothing was sent.
		if strings.Contains(text, "error while marshaling") {
			return engine.Permanent
		}
		return engine.Unanswered
	case codes.Unknown:
		if isTooLarge(text) {
			return engine.Permanent
		}
		return engine.Unanswered
	case codes.NotFound, codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented:
		return engine.Blocked
	default:
		return engine.Unanswered
	}
}

// isUnregistered reports whether an error says that the namespace does not know a search attribute. A server learns of
// a new one within a minute.
func isUnregistered(text string) bool {
	return strings.Contains(text, "has no mapping defined for search attribute") ||
		strings.Contains(text, "search attribute ") && strings.Contains(text, " is not defined")
}

// isTooLarge reports whether an error says that the request is larger than the server or a proxy accepts. Such errors
// come from gRPC or HTTP, not from Temporal, and each implementation has a text of its own.
func isTooLarge(text string) bool {
	for _, says := range []string{
		"larger than max",                            // Go: both sides; C, and with it Python, Ruby and PHP
		"gRPC message exceeds maximum size",          // Java
		"HTTP status code received from server: 413", // a proxy, as Go's client reports it
	} {
		if strings.Contains(text, says) {
			return true
		}
	}
	return false
}

// Remedy returns what a person can do about the error of a start, or "" if that is not known.
func Remedy(err error, namespace string) string {
	var missing *serviceerror.NamespaceNotFound
	var codec *CodecError
	switch {
	case errors.As(err, &codec):
		return codec.Remedy()
	case errors.Is(err, ErrNoActivities):
		return ActivitiesNeed + "; their items wait until then, and workflows are not held up"
	case errors.As(err, &missing):
		return "register it (" + registration(namespace) +
			"), or correct workflow_definitions.namespace or TEMPORAL_NAMESPACE; waiting items then start automatically"
	case Classify(err) == engine.Unregistered:
		return "register the search attribute (temporal operator search-attribute create --namespace " +
			strconv.Quote(namespace) + "), or correct start_options; the item is retried for some minutes"
	case Code(err) == codes.PermissionDenied:
		return "allow the API key or certificate of pgdispatch to start workflows in this namespace"
	case Code(err) == codes.Unauthenticated:
		return "replace the key in the file that TEMPORAL_API_KEY_FILE names, which needs no restart; or correct " +
			"TEMPORAL_API_KEY or the client certificate, and restart the replicas"
	default:
		return ""
	}
}

// registration returns the command that registers a namespace.
func registration(namespace string) string {
	return "temporal operator namespace create --namespace " + strconv.Quote(namespace)
}

// isForbidden reports whether Temporal answers but does not serve this request for this client.
func isForbidden(err error) bool {
	switch Code(err) {
	case codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented:
		return true
	default:
		return false
	}
}

// ErrCrowded means that Temporal refused a long poll because the namespace has reached its limit.
var ErrCrowded = errors.New("too many long polls")

// ErrAway means that Temporal did not answer or had no capacity.
var ErrAway = errors.New("no answer from Temporal")

// away marks errors that say nothing about the requested execution as ErrCrowded or ErrAway.
func away(err error) error {
	var exhausted *serviceerror.ResourceExhausted
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exhausted) && exhausted.Cause == enumspb.RESOURCE_EXHAUSTED_CAUSE_CONCURRENT_LIMIT:
		return fmt.Errorf("%w: %w", ErrCrowded, err)
	}
	switch Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted:
		return fmt.Errorf("%w: %w", ErrAway, err)
	default:
		return err
	}
}

// Code returns the gRPC code of an error, which may be wrapped.
func Code(err error) codes.Code {
	var service serviceerror.ServiceError
	var grpc interface{ GRPCStatus() *status.Status }
	switch {
	case err == nil:
		return codes.OK
	case errors.As(err, &service):
		return service.Status().Code()
	case errors.As(err, &grpc):
		return grpc.GRPCStatus().Code()
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	}
	return codes.Unknown
}
