package doctor

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
)

// describing is a Temporal that answers all descriptions of activities with err.
type describing struct {
	workflowservice.WorkflowServiceClient
	err error
}

func (d describing) DescribeActivityExecution(context.Context, *workflowservice.DescribeActivityExecutionRequest,
	...grpc.CallOption) (*workflowservice.DescribeActivityExecutionResponse, error) {
	return nil, d.err
}

func TestDoctorSaysWhetherTemporalStartsActivitiesOrWhyItCannotTell(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]struct {
		answer   error
		severity Severity
		remedy   string
	}{
		"Temporal 1.31.2 starts them": {serviceerror.NewNotFound("activity not found"), Fine, ""},
		"Temporal 1.31.2 starts none": {serviceerror.NewUnimplemented("unknown method DescribeActivityExecution"), Problem,
			"Upgrade or configure Temporal: standalone activities need Temporal 1.32 or newer"},
		"Request unauthorized.": {serviceerror.NewPermissionDenied("Request unauthorized.", ""), Unknown,
			"Allow the API key or certificate to describe activities."},
	} {
		found := checkActivities(t.Context(), describing{err: c.answer}, "shop", "1.31.2")
		require.Contains(t, found.Finding, want)
		require.Equal(t, c.severity, found.Severity, want)
		require.Contains(t, found.Remedy, c.remedy, want)
	}
}
