package temporal

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
	// MaxResult is the size limit of a result in bytes of JSON, and the maximum of the setting result-bytes.
	MaxResult = 64 << 10
	// maxFailure is the length in bytes at which a failure's text ends. A row keeps less than that.
	maxFailure = 8000
	// maxCauses limits the causes of a failure that are included.
	maxCauses = 10
	// maxEncoding limits the bytes shown of an encoding's name, which the payload's author chose.
	maxEncoding = 100
)

// nameless are the type names of generic Go errors. They carry no information.
var nameless = []string{"", "errorString", "wrapError", "wrapErrors", "joinError"}

// Failure returns the failure's message followed by those of its causes, which contain, for example, an activity's
// error. Each is followed by its error type, if it has one.
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

// Result returns a workflow's result as JSON, or a note why it is not kept. Both are empty if the workflow returned
// nothing. A payload that a codec has encrypted or compressed is not JSON and is not kept.
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
		return "", fmt.Sprintf("encoding %q, %d bytes: not stored", encoding[:min(len(encoding), maxEncoding)], len(data))
	case len(data) > MaxResult:
		return "", fmt.Sprintf("%d bytes: too large to store", len(data))
	case !json.Valid(data) || !utf8.Valid(data):
		return "", fmt.Sprintf("%d bytes that are not JSON: not stored", len(data))
	}
	return string(data), ""
}
