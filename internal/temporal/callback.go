package temporal

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	commonpb "go.temporal.io/api/common/v1"
	"google.golang.org/grpc/codes"
)

// refusalPause is how long workflows are started without callbacks after Temporal has refused one.
const refusalPause = time.Minute

// Callback makes Temporal call a URL when a workflow ends. If the server refuses callbacks, the workflow is started
// without one, so no item fails because of its callback. Its fields must be set before use and must not change
// afterwards.
type Callback struct {
	// URL is the URL that Temporal calls. The server must allow it.
	URL string
	// Header returns the headers of the call for an execution.
	Header func(execution Execution) map[string]string
	Log    *slog.Logger

	mu      sync.Mutex
	refused bool
	retryAt time.Time
}

// Taken reports whether Temporal accepts callbacks, as far as known. It is false for a nil Callback.
func (c *Callback) Taken() bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.refused
}

// isRefusal reports whether Temporal read the request and rejected it. Nothing was started.
func isRefusal(err error) bool {
	return err != nil && (Code(err) == codes.InvalidArgument || Code(err) == codes.Unimplemented)
}

func (c *Callback) request(execution Execution) []*commonpb.Callback {
	return []*commonpb.Callback{{Variant: &commonpb.Callback_Nexus_{
		Nexus: &commonpb.Callback_Nexus{Url: c.URL, Header: c.Header(execution)},
	}}}
}

// wanted reports whether to request a callback: always, or once per refusalPause while Temporal refuses them.
func (c *Callback) wanted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.refused {
		return true
	}
	if time.Now().Before(c.retryAt) {
		return false
	}
	c.retryAt = time.Now().Add(refusalPause)
	return true
}

func (c *Callback) taken(ctx context.Context) {
	c.mu.Lock()
	again := c.refused
	c.refused = false
	c.mu.Unlock()
	if again {
		c.Log.InfoContext(ctx, "Temporal accepts completion callbacks again")
	}
}

func (c *Callback) refuse(ctx context.Context, err error) {
	c.mu.Lock()
	first := !c.refused
	c.refused, c.retryAt = true, time.Now().Add(refusalPause)
	c.mu.Unlock()
	if first {
		c.Log.WarnContext(ctx,
			"Temporal rejects completion callbacks; starting workflows without them. Allow PGDISPATCH_CALLBACK_URL in "+
				"Temporal's dynamic configuration, callback.allowedAddresses",
			"url", c.URL, "error", err)
	}
}

// CallbackHeader returns the header that Temporal sends with an execution's completion callback. It names the execution
// and proves that the callback was requested by pgdispatch. The token is in a header because URLs are often logged.
// Temporal shows the header to everyone who may describe the workflow.
func CallbackHeader(key []byte, execution Execution) map[string]string {
	place := execution.Namespace
	if execution.WorkflowID != "" {
		place += placeSeparator + execution.WorkflowID
	}
	encoded := base64.RawURLEncoding.EncodeToString([]byte(place))
	return map[string]string{"authorization": bearer + execution.ID + "." + encoded + "." +
		callbackToken(key, execution.ID, encoded)}
}

const (
	bearer = "Bearer "
	// placeSeparator is between the namespace and the workflow ID of an item that names one. Neither can contain it.
	placeSeparator = "\x00"
)

// callbackToken returns the proof for one execution. It is valid for that execution only.
func callbackToken(key []byte, executionID, place string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("pgdispatch callback " + executionID + " " + place))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// CheckCallback returns the execution that a request names, and whether its token is valid for that execution.
func CheckCallback(key []byte, header http.Header) (execution Execution, valid bool) {
	given, found := strings.CutPrefix(header.Get("Authorization"), bearer)
	id, rest, _ := strings.Cut(given, ".")
	encoded, proof, _ := strings.Cut(rest, ".")
	place, err := base64.RawURLEncoding.DecodeString(encoded)
	if !found || uuid.Validate(id) != nil || err != nil {
		return Execution{}, false
	}
	namespace, workflowID, _ := strings.Cut(string(place), placeSeparator)
	return Execution{ID: id, WorkflowID: workflowID, Namespace: namespace},
		hmac.Equal([]byte(proof), []byte(callbackToken(key, id, encoded)))
}
