package temporal

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	failurepb "go.temporal.io/api/failure/v1"
)

// failure is an application failure with a type.
func failure(message, kind string, cause *failurepb.Failure) *failurepb.Failure {
	return &failurepb.Failure{Message: message, Cause: cause, FailureInfo: &failurepb.Failure_ApplicationFailureInfo{
		ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{Type: kind}}}
}

func TestFailureTellsMessagesAndTypesDownToTheCause(t *testing.T) {
	t.Parallel()
	require.Empty(t, Failure(nil))
	require.Equal(t, "boom", Failure(&failurepb.Failure{Message: "boom"}))
	require.Equal(t, "activity error: card expired (CardError): no gas",
		Failure(
			&failurepb.Failure{Message: "activity error",
				Cause: failure("card expired", "CardError", failure("no gas", "errorString", nil))}))
}

func TestFailureIsBoundedHoweverLongItIs(t *testing.T) {
	t.Parallel()
	long := failure(strings.Repeat("é", 1<<20), strings.Repeat("é", 1<<20), nil)
	text := Failure(failure("a", "", long))
	require.Less(t, len(text), 10000)
	require.True(t, utf8.ValidString(text))
	var deep *failurepb.Failure
	for range 1000 {
		deep = failure("x", "", deep)
	}
	require.Equal(t, "x"+strings.Repeat(": x", 10), Failure(deep))
}

func TestResultIsKeptWhereItIsJSON(t *testing.T) {
	t.Parallel()
	payload := func(encoding, data string) *commonpb.Payload {
		return &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte(encoding)}, Data: []byte(data)}
	}
	for name, c := range map[string]struct {
		payloads     []*commonpb.Payload
		result, note string
	}{
		"nothing":   {},
		"null":      {payloads: []*commonpb.Payload{payload("binary/null", "")}},
		"JSON":      {payloads: []*commonpb.Payload{payload("json/plain", `{"total": 3}`)}, result: `{"total": 3}`},
		"the first": {payloads: []*commonpb.Payload{payload("json/plain", "1"), payload("json/plain", "2")}, result: "1"},
		"encrypted": {payloads: []*commonpb.Payload{payload("binary/encrypted", "secret")},
			note: `encoding "binary/encrypted", 6 bytes: not stored`},
		"no encoding": {payloads: []*commonpb.Payload{{Data: []byte("1")}}, note: `encoding "", 1 bytes: not stored`},
		"bad encoding": {payloads: []*commonpb.Payload{payload("a\x00\n"+strings.Repeat("b", 500), "x")},
			note: `encoding "a\x00\n` + strings.Repeat("b", 97) + `", 1 bytes: not stored`},
		"too large": {payloads: []*commonpb.Payload{payload("json/plain", strings.Repeat(" ", MaxResult+1))},
			note: "65537 bytes: too large to store"},
		"not JSON": {payloads: []*commonpb.Payload{payload("json/plain", `{"total"`)},
			note: "8 bytes that are not JSON: not stored"},
		"invalid UTF-8": {payloads: []*commonpb.Payload{payload("json/plain", "\"\xff\"")},
			note: "3 bytes that are not JSON: not stored"},
	} {
		result, note := Result(&commonpb.Payloads{Payloads: c.payloads})
		require.Equal(t, c.result, result, name)
		require.Equal(t, c.note, note, name)
	}
	result, note := Result(nil)
	require.Empty(t, result+note)
}
