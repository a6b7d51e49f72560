package temporal

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
)

func TestStopAsksForTheEndOfTheRunThatIsOpen(t *testing.T) {
	t.Parallel()
	stop := func(how string, service *fakeService) error {
		return (&Client{Service: service, Namespace: "shop"}).Stop(t.Context(),
			Stop{Execution: Execution{ID: "e1"}, How: how, Reason: "enough", RequestedBy: "ann"})
	}
	service := &fakeService{newest: described("run-3", "e1", true)}
	require.NoError(t, stop("CANCEL", service))
	require.NoError(t, stop("TERMINATE", service))
	require.Equal(t,
		[]string{"cancel execution-e1 run-3 by ann: enough (e1)", "terminate execution-e1 run-3 by ann: enough"},
		service.stops)

	service.stop = serviceerror.NewCancellationAlreadyRequested("again")
	require.NoError(t, stop("CANCEL", service), "the answer to the first request was lost")
	service.stop = serviceerror.NewNotFound("workflow execution already completed")
	require.ErrorIs(t, stop("TERMINATE", service), ErrNotOpen)
	service.stop = serviceerror.NewUnavailable("connection refused")
	require.ErrorIs(t, stop("TERMINATE", service), ErrAway)
}

func TestStopAsksForNobodyElsesEnd(t *testing.T) {
	t.Parallel()
	for name, service := range map[string]*fakeService{
		"not known":             {},
		"closed":                {newest: described("run-3", "e1", false)},
		"an unrelated workflow": {newest: described("run-3", "somebody else", true)},
		"away":                  {newest: described("run-3", "e1", true), describe: serviceerror.NewUnavailable("x")},
	} {
		err := (&Client{Service: service}).Stop(t.Context(), Stop{Execution: Execution{ID: "e1"}, How: "TERMINATE"})
		require.Error(t, err, name)
		require.Empty(t, service.stops, name)
	}
}
