package complete

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	nethttp "net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/pgdispatch/pgdispatch/claim"
)

// CallbackHeader returns the header that Temporal sends with an execution's completion callback. It names the execution
// and proves that the callback was requested by pgdispatch. The token is in a header because URLs are often logged.
// Temporal shows the header to everyone who may describe the workflow.
func CallbackHeader(key []byte, execution claim.Execution) map[string]string {
	namespace := base64.RawURLEncoding.EncodeToString([]byte(execution.Namespace))
	return map[string]string{"authorization": bearer + execution.ID + "." + namespace + "." + token(key, execution.ID, namespace)}
}

const bearer = "Bearer "

// token returns the proof for one execution. It is valid for that execution only.
func token(key []byte, executionID, namespace string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("pgdispatch callback " + executionID + " " + namespace))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// checkCallback returns the execution that a request names, and whether its token is valid for that execution.
func checkCallback(key []byte, header nethttp.Header) (execution claim.Execution, valid bool) {
	given, found := strings.CutPrefix(header.Get("Authorization"), bearer)
	id, rest, _ := strings.Cut(given, ".")
	encoded, proof, _ := strings.Cut(rest, ".")
	namespace, err := base64.RawURLEncoding.DecodeString(encoded)
	if !found || uuid.Validate(id) != nil || err != nil {
		return claim.Execution{}, false
	}
	return claim.Execution{ID: id, Namespace: string(namespace)}, hmac.Equal([]byte(proof), []byte(token(key, id, encoded)))
}
