package complete

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	nethttp "net/http"
	"strings"

	"github.com/google/uuid"
)

// CallbackHeader is what Temporal is to send along when an execution's workflow has ended: who it is about, and proof that we
// asked for it. It is a header and not a part of the URL, because URLs are logged wherever they pass. Temporal shows it to whoever
// may describe the workflow.
func CallbackHeader(key []byte, executionID string) map[string]string {
	return map[string]string{"authorization": bearer + executionID + "." + token(key, executionID)}
}

const bearer = "Bearer "

// token is valid for one execution.
func token(key []byte, executionID string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("pgdispatch callback " + executionID))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// checkCallback says which execution a request is about, if its token is that execution's.
func checkCallback(key []byte, header nethttp.Header) (executionID string, valid bool) {
	given, found := strings.CutPrefix(header.Get("Authorization"), bearer)
	executionID, proof, _ := strings.Cut(given, ".")
	if !found || uuid.Validate(executionID) != nil {
		return "", false
	}
	return executionID, hmac.Equal([]byte(proof), []byte(token(key, executionID)))
}
