package temporal

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/google/uuid"
)

// CallbackHeader returns the header that Temporal sends with an execution's completion callback. It names the execution
// and proves that the callback was requested by pgdispatch. The token is in a header because URLs are often logged.
// Temporal shows the header to everyone who may describe the workflow.
func CallbackHeader(key []byte, execution Execution) map[string]string {
	namespace := base64.RawURLEncoding.EncodeToString([]byte(execution.Namespace))
	return map[string]string{"authorization": bearer + execution.ID + "." + namespace + "." +
		callbackToken(key, execution.ID, namespace)}
}

const bearer = "Bearer "

// callbackToken returns the proof for one execution. It is valid for that execution only.
func callbackToken(key []byte, executionID, namespace string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("pgdispatch callback " + executionID + " " + namespace))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// CheckCallback returns the execution that a request names, and whether its token is valid for that execution.
func CheckCallback(key []byte, header http.Header) (execution Execution, valid bool) {
	given, found := strings.CutPrefix(header.Get("Authorization"), bearer)
	id, rest, _ := strings.Cut(given, ".")
	encoded, proof, _ := strings.Cut(rest, ".")
	namespace, err := base64.RawURLEncoding.DecodeString(encoded)
	if !found || uuid.Validate(id) != nil || err != nil {
		return Execution{}, false
	}
	return Execution{ID: id, Namespace: string(namespace)},
		hmac.Equal([]byte(proof), []byte(callbackToken(key, id, encoded)))
}
