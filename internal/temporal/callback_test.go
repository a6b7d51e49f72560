package temporal

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"google.golang.org/protobuf/proto"

	"github.com/pgdispatch/pgdispatch/internal/must"
)

// caller starts workflows with a callback at a service that accepts or rejects them.
type caller struct {
	*Client
	service *startService
	sent    []*startRequest // copies made when they were sent
	refuses error           // the answer to a callback; nil: accepted
	fails   error           // the answer to the start itself
}

func newCaller() *caller {
	c := &caller{service: &startService{}}
	c.service.start = func(r *startRequest) (*startResponse, error) {
		c.sent = append(c.sent, proto.CloneOf(r))
		switch {
		case len(r.CompletionCallbacks) > 0 && c.refuses != nil:
			return nil, c.refuses
		case c.fails != nil:
			return nil, c.fails
		}
		return &startResponse{RunId: "run", Status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING}, nil
	}
	c.Client = &Client{Service: c.service, Namespace: "default", Callback: &Callback{
		URL: "https://pgdispatch.example.com/callbacks", Log: slog.New(slog.DiscardHandler),
		Header: func(execution Execution) map[string]string {
			return map[string]string{"authorization": "Bearer " + execution.Namespace + execution.ID}
		},
	}}
	return c
}

func (c *caller) requireStart(t *testing.T) {
	t.Helper()
	runID := must.Get(c.Start(t.Context(), anItem())).In(t)
	require.Equal(t, "run", runID)
}

func TestAStartAsksForACallbackWithTheExecutionsHeader(t *testing.T) {
	t.Parallel()
	c := newCaller()
	c.requireStart(t)
	require.Len(t, c.sent, 1)
	require.Len(t, c.sent[0].CompletionCallbacks, 1)
	callback := c.sent[0].CompletionCallbacks[0].GetNexus()
	require.Equal(t, "https://pgdispatch.example.com/callbacks", callback.GetUrl())
	require.Equal(t, map[string]string{"authorization": "Bearer default" + anItem().ID}, callback.GetHeader())
	require.True(t, c.Callback.Taken())
}

func TestNoItemFailsWhereTemporalRefusesCallbacks(t *testing.T) {
	must.Each(t, map[string]error{
		"not allowed": serviceerror.NewInvalidArgument("invalid url: url does not match any configured callback address"),
		"not known":   serviceerror.NewUnimplemented("unknown callback variant"),
	}, func(t *testing.T, refusal error) {
		synctest.Test(t, func(t *testing.T) {
			c := newCaller()
			c.refuses = refusal
			c.requireStart(t)
			require.Len(t, c.sent, 2)
			require.Equal(t, c.sent[0].RequestId, c.sent[1].RequestId, "both are the same start")
			require.Empty(t, c.sent[1].CompletionCallbacks)
			require.False(t, c.Callback.Taken(), "the execution is to be watched")

			c.requireStart(t)
			require.Len(t, c.sent, 3, "the next start requests no callback")

			time.Sleep(refusalPause)
			c.requireStart(t)
			c.requireStart(t)
			require.Len(t, c.sent, 6, "after a while, one start requests it again")

			c.refuses = nil
			time.Sleep(refusalPause)
			c.requireStart(t)
			require.Len(t, c.sent, 7)
			require.True(t, c.Callback.Taken(), "callbacks are allowed again")
		})
	})
}

// An error of the item itself is not attributed to its callback.
func TestAnItemThatCannotBeStartedLeavesCallbacksOn(t *testing.T) {
	t.Parallel()
	c := newCaller()
	c.refuses = serviceerror.NewInvalidArgument("task queue name is too long")
	c.fails = c.refuses
	_, err := c.Start(t.Context(), anItem())
	require.Equal(t, engine.Permanent, Classify(err))
	require.True(t, c.Callback.Taken())
}

func TestAnOutageSaysNothingAboutCallbacks(t *testing.T) {
	t.Parallel()
	c := newCaller()
	c.refuses = serviceerror.NewUnavailable("shutting down")
	_, err := c.Start(t.Context(), anItem())
	require.Equal(t, engine.Unanswered, Classify(err))
	require.Len(t, c.sent, 1)
	require.True(t, c.Callback.Taken())
}
