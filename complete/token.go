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

// CallbackHeader is what Temporal is to send along when an execution's workflow has ended: who it is about, and proof that we
// asked for it. It is a header and not a part of the URL, because URLs are logged wherever they pass. Temporal shows it to whoever
// may describe the workflow.
func CallbackHeader(key []byte, execution claim.Execution) map[string]string {
	namespace := base64.RawURLEncoding.EncodeToString([]byte(execution.Namespace))
	return map[string]string{"authorization": bearer + execution.ID + "." + namespace + "." + token(key, execution.ID, namespace)}
}

const bearer = "Bearer "

// token is valid for one execution.
func token(key []byte, executionID, namespace string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("pgdispatch callback " + executionID + " " + namespace))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// checkCallback says which execution a request is about, if its token is that execution's.
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
