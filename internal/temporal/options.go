package temporal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	deploymentpb "go.temporal.io/api/deployment/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/durationpb"
)

// options are the start options of an item: how Temporal is to start its workflow or activity. Its identity is not
// among them. The database has checked them, and that its kind has them: see sql/client/check.sql.
type options struct {
	RetryPolicy *struct {
		InitialInterval        duration `json:"initial_interval"`
		BackoffCoefficient     float64  `json:"backoff_coefficient"`
		MaximumInterval        duration `json:"maximum_interval"`
		MaximumAttempts        int32    `json:"maximum_attempts"`
		NonRetryableErrorTypes []string `json:"non_retryable_error_types"`
	} `json:"retry_policy"`
	RunTimeout       duration                   `json:"workflow_run_timeout"`
	TaskTimeout      duration                   `json:"workflow_task_timeout"`
	ScheduleToClose  duration                   `json:"schedule_to_close_timeout"`
	ScheduleToStart  duration                   `json:"schedule_to_start_timeout"`
	StartToClose     duration                   `json:"start_to_close_timeout"`
	Heartbeat        duration                   `json:"heartbeat_timeout"`
	SearchAttributes map[string]json.RawMessage `json:"search_attributes"`
	Memo             map[string]json.RawMessage `json:"memo"`
	Priority         *struct {
		PriorityKey    int32   `json:"priority_key"`
		FairnessKey    string  `json:"fairness_key"`
		FairnessWeight float32 `json:"fairness_weight"`
	} `json:"priority"`
	VersioningOverride *struct {
		AutoUpgrade bool `json:"auto_upgrade"`
		Pinned      *struct {
			DeploymentName string `json:"deployment_name"`
			BuildID        string `json:"build_id"`
		} `json:"pinned"`
	} `json:"versioning_override"`
	StaticSummary  json.RawMessage `json:"static_summary"`
	StaticDetails  json.RawMessage `json:"static_details"`
	WorkflowType   string          `json:"workflow_type"`
	TaskQueue      string          `json:"task_queue"`
	AllowOverrides []string        `json:"allow_overrides"` // for the database
}

// duration is a string such as "90s". Empty means that Temporal's default applies.
type duration time.Duration

// UnmarshalJSON implements json.Unmarshaler.
func (d *duration) UnmarshalJSON(text []byte) error {
	var words string
	if err := json.Unmarshal(text, &words); err != nil {
		return err
	}
	parsed, err := time.ParseDuration(words)
	*d = duration(parsed)
	return err
}

// proto returns nil for zero, so that Temporal's default applies.
func (d duration) proto() *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(time.Duration(d))
}

// applyOptions adds start options to a request.
func applyOptions(request order, text []byte) error {
	if len(text) == 0 {
		return nil
	}
	var o options
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&o); err != nil {
		return fmt.Errorf("read start_options: %w", err)
	}
	if _, taken := o.Memo[memoKey]; taken {
		return errors.New("read start_options: memo." + memoKey + " is set by pgdispatch")
	}
	request.WorkflowRunTimeout, request.WorkflowTaskTimeout = o.RunTimeout.proto(), o.TaskTimeout.proto()
	maps.Copy(request.Memo.Fields, payloads(o.Memo))
	if len(o.SearchAttributes) > 0 {
		request.SearchAttributes = &commonpb.SearchAttributes{IndexedFields: payloads(o.SearchAttributes)}
	}
	if o.StaticSummary != nil || o.StaticDetails != nil {
		request.UserMetadata = &sdkpb.UserMetadata{Summary: payload(o.StaticSummary), Details: payload(o.StaticDetails)}
	}
	if o.WorkflowType != "" {
		request.WorkflowType.Name = o.WorkflowType
	}
	if o.TaskQueue != "" {
		request.TaskQueue.Name = o.TaskQueue
	}
	if a := request.activity; a != nil {
		a.ScheduleToCloseTimeout, a.ScheduleToStartTimeout = o.ScheduleToClose.proto(), o.ScheduleToStart.proto()
		a.StartToCloseTimeout, a.HeartbeatTimeout = o.StartToClose.proto(), o.Heartbeat.proto()
	}
	o.addPolicies(request.StartWorkflowExecutionRequest)
	return nil
}

func (o *options) addPolicies(request *workflowservice.StartWorkflowExecutionRequest) {
	if r := o.RetryPolicy; r != nil {
		request.RetryPolicy = &commonpb.RetryPolicy{
			InitialInterval: r.InitialInterval.proto(), MaximumInterval: r.MaximumInterval.proto(),
			BackoffCoefficient: r.BackoffCoefficient, MaximumAttempts: r.MaximumAttempts,
			NonRetryableErrorTypes: r.NonRetryableErrorTypes,
		}
	}
	if p := o.Priority; p != nil {
		request.Priority = &commonpb.Priority{PriorityKey: p.PriorityKey, FairnessKey: p.FairnessKey,
			FairnessWeight: p.FairnessWeight}
	}
	switch v := o.VersioningOverride; {
	case v == nil:
	case v.Pinned != nil:
		request.VersioningOverride = &workflowpb.VersioningOverride{Override: &workflowpb.VersioningOverride_Pinned{
			Pinned: &workflowpb.VersioningOverride_PinnedOverride{
				Behavior: workflowpb.VersioningOverride_PINNED_OVERRIDE_BEHAVIOR_PINNED,
				Version:  &deploymentpb.WorkerDeploymentVersion{DeploymentName: v.Pinned.DeploymentName, BuildId: v.Pinned.BuildID},
			}}}
	case v.AutoUpgrade:
		request.VersioningOverride = &workflowpb.VersioningOverride{
			Override: &workflowpb.VersioningOverride_AutoUpgrade{AutoUpgrade: true}}
	}
}

func payloads(values map[string]json.RawMessage) map[string]*commonpb.Payload {
	all := make(map[string]*commonpb.Payload, len(values))
	for name, value := range values {
		all[name] = jsonPayload(value)
	}
	return all
}

// payload returns nil for a value that is not set.
func payload(value json.RawMessage) *commonpb.Payload {
	if value == nil {
		return nil
	}
	return jsonPayload(value)
}
