// Package summary says in a bounded text how a workflow ended: what failed, and with which result. Both the dispatcher, which
// reads close events, and package finish, which sees the worker's commands, keep the same words.
package summary

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	commonpb "go.temporal.io/api/common/v1"
	failurepb "go.temporal.io/api/failure/v1"
)

const (
	// MaxResult is how many bytes of JSON are looked at to be kept. The setting result-bytes ends here.
	MaxResult = 64 << 10
	// maxFailure is where a failure's text ends, in bytes: above what a row keeps of it.
	maxFailure = 8000
	// maxCauses is how many causes of a failure are told.
	maxCauses = 10
	// maxEncoding is how many bytes of an encoding's name are shown: whoever wrote the payload has chosen it.
	maxEncoding = 100
)

// nameless are the types that Go has for errors without one of their own. They say nothing.
var nameless = []string{"", "errorString", "wrapError", "wrapErrors", "joinError"}

// Failure is the failure's own message and its causes', which say what went wrong in an activity, each with its type where it
// has one.
func Failure(failure *failurepb.Failure) string {
	var text strings.Builder
	for n := 0; failure != nil && n <= maxCauses && text.Len() < maxFailure; n++ {
		if n > 0 {
			text.WriteString(": ")
		}
		message := failure.GetMessage()
		text.WriteString(message[:min(len(message), maxFailure)])
		if kind := failure.GetApplicationFailureInfo().GetType(); !slices.Contains(nameless, kind) {
			fmt.Fprintf(&text, " (%s)", kind[:min(len(kind), maxEncoding)])
		}
		failure = failure.GetCause()
	}
	return strings.ToValidUTF8(text.String(), "\uFFFD")
}

// Result is a workflow's result as JSON, or a note why it is not kept; both are empty where the workflow returned nothing. What
// a codec has encrypted or compressed is not JSON, and stays so.
func Result(payloads *commonpb.Payloads) (result, note string) {
	if len(payloads.GetPayloads()) == 0 {
		return "", ""
	}
	payload := payloads.GetPayloads()[0]
	data := payload.GetData()
	switch encoding := string(payload.GetMetadata()["encoding"]); {
	case encoding == "binary/null":
		return "", ""
	case encoding != "json/plain":
		return "", fmt.Sprintf("encoding %q, %d bytes: not kept", encoding[:min(len(encoding), maxEncoding)], len(data))
	case len(data) > MaxResult:
		return "", fmt.Sprintf("%d bytes: more than are ever kept", len(data))
	case !json.Valid(data) || !utf8.Valid(data):
		return "", fmt.Sprintf("%d bytes that are no JSON: not kept", len(data))
	}
	return string(data), ""
}
