package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

const (
	// temporalTimeout limits each request to Temporal.
	temporalTimeout = 5 * time.Second
	// mostQueues limits the task queues that are checked.
	mostQueues = 100
	// longestAttempt exceeds the time between two attempts at an item: 5m plus jitter.
	longestAttempt = 6 * time.Minute
	// leastRetention is the recommended minimum retention of a namespace. It covers an outage of a day between an
	// item's attempts.
	leastRetention = 24 * time.Hour

	// noNamespace is what it means that Temporal refuses a namespace.
	noNamespace = "No workflows can start in it. Its items wait, and replicas probe. Replicas that have it in " +
		"TEMPORAL_NAMESPACE are not ready."
)

// examineTemporal makes the checks that need Temporal. It covers the namespaces that definitions name, and own, that of
// the replicas: without it they are not ready. knowsQueues reports whether the task queues could be read.
func examineTemporal(ctx context.Context, service workflowservice.WorkflowServiceClient, own string,
	queues []operate.TaskQueue, knowsQueues bool) []Finding {
	ask, cancel := context.WithTimeout(ctx, temporalTimeout)
	defer cancel()
	system, err := service.GetSystemInfo(ask, &workflowservice.GetSystemInfoRequest{})
	if err != nil {
		return []Finding{temporalFault("temporal", err)}
	}
	version := view.OrNone(view.Printable(system.GetServerVersion()))
	findings := []Finding{ok("temporal", "reachable, version %s", version)}
	byNamespace := map[string][]operate.TaskQueue{own: nil}
	for _, q := range queues {
		name := cmp.Or(q.Namespace, own)
		byNamespace[name] = append(byNamespace[name], q)
	}
	for _, namespace := range slices.Sorted(maps.Keys(byNamespace)) {
		for _, f := range examineNamespace(ctx, service, namespace, version, byNamespace[namespace], knowsQueues) {
			if len(byNamespace) > 1 {
				f.Check += " (" + view.Printable(namespace) + ")"
			}
			findings = append(findings, f)
		}
	}
	return findings
}

func examineNamespace(ctx context.Context, service workflowservice.WorkflowServiceClient, namespace, version string,
	queues []operate.TaskQueue, knowsQueues bool) (findings []Finding) {
	ask, cancel := context.WithTimeout(ctx, temporalTimeout)
	defer cancel()
	described, err := service.DescribeNamespace(ask, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	var missing *serviceerror.NamespaceNotFound
	switch {
	case errors.As(err, &missing):
		return append(findings,
			Finding{"namespace", Problem, fmt.Sprintf("Temporal has no namespace %q", namespace),
				noNamespace,
				"Register it: `temporal operator namespace create --namespace ...`; or correct TEMPORAL_NAMESPACE or " +
					"pgdispatch.workflow_definitions.namespace. Waiting items then start automatically."})
	case temporal.Code(err) == codes.PermissionDenied:
		return append(findings, checkPermission(ctx, service, namespace, err))
	case err != nil:
		return append(findings, temporalFault("namespace", err))
	case described.GetNamespaceInfo().GetState() != enums.NAMESPACE_STATE_REGISTERED:
		findings = append(findings,
			Finding{"namespace", Problem, fmt.Sprintf("namespace %q is %s", namespace, described.GetNamespaceInfo().GetState()),
				"It accepts no new workflows, or will be deleted.", "Use another namespace."})
	default:
		findings = append(findings, ok("namespace", "%s", view.Printable(namespace)))
	}
	if !knowsQueues {
		return append(findings,
			Finding{"task queues", Unknown, "the definitions could not be read", "It is unknown whether workers are running.",
				"Fix the database first."})
	}
	keeps := described.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration()
	findings = append(findings, checkRetention(keeps, queues), checkPollers(ctx, service, namespace, queues))
	if slices.ContainsFunc(queues, func(q operate.TaskQueue) bool { return q.Kind == temporal.Activity }) {
		findings = append(findings, checkActivities(ctx, service, namespace, version))
	}
	return findings
}

// checkActivities checks that Temporal starts the activities of a namespace's definitions.
func checkActivities(ctx context.Context, service workflowservice.WorkflowServiceClient, namespace,
	version string) Finding {
	const check = "standalone activities"
	has, err := (&temporal.Client{Service: service, Namespace: namespace}).HasActivities(ctx, namespace)
	switch {
	case err != nil:
		return Finding{check, Unknown, postgres.Redact(err).Error(), "It is unknown whether Temporal starts them.",
			"Allow the API key or certificate to describe activities."}
	case !has:
		return Finding{check, Problem, fmt.Sprintf("Temporal %s starts none", version),
			"Items of definitions of kind activity wait. Workflows are started.",
			"Upgrade or configure Temporal: " + temporal.ActivitiesNeed + ". Waiting items then start automatically."}
	}
	return ok(check, "Temporal %s starts them", version)
}

// checkPermission finds out whether the credentials, which may not describe the namespace, may use it.
func checkPermission(ctx context.Context, service workflowservice.WorkflowServiceClient, namespace string,
	denied error) Finding {
	ctx, cancel := context.WithTimeout(ctx, temporalTimeout)
	defer cancel()
	err := (&temporal.Client{Service: service, Namespace: namespace}).Probe(ctx)
	var refused temporal.NamespaceError
	if errors.As(err, &refused) {
		return Finding{"namespace", Problem, fmt.Sprintf("namespace %q: %s", namespace, postgres.Redact(denied)),
			noNamespace,
			"Allow the API key or certificate to use the namespace; or correct TEMPORAL_NAMESPACE or " +
				"pgdispatch.workflow_definitions.namespace."}
	}
	return temporalFault("namespace", cmp.Or(err, denied))
}

func temporalFault(check string, err error) Finding {
	f := Finding{check, Problem, postgres.Redact(err).Error(), "No workflows can start. Replicas pause, and items wait.",
		"Check that Temporal runs, and check TEMPORAL_ADDRESS, TLS and the network."}
	var denied *serviceerror.PermissionDenied
	switch {
	case errors.As(err, &denied):
		f.Severity, f.Remedy = Unknown,
			"Allow the API key or certificate to read the namespace, or run doctor with one that may."
		f.Meaning = "These credentials may not read the namespace."
	case serviceerror.ToStatus(err).Code() == codes.Unauthenticated:
		f.Remedy = "Correct TEMPORAL_API_KEY, or the client certificate."
	}
	return f
}

// checkRetention compares how long Temporal keeps closed workflows with how long an item may be retried.
func checkRetention(keeps time.Duration, queues []operate.TaskQueue) Finding {
	const check, meaning = "retention",
		"Temporal deduplicates a repeated start only while it retains the workflow. An item whose start stays unanswered " +
			"for longer is not started again: it becomes a dead letter, to be replayed or discarded."
	attempts := 1
	for _, q := range queues {
		attempts = max(attempts, q.MaxAttempts)
	}
	longest := time.Duration(attempts) * longestAttempt
	remedy := fmt.Sprintf("Set the retention to %s or more: `temporal operator namespace update --retention ...`.",
		view.Shortly(max(2*longest, leastRetention)))
	switch {
	case keeps <= 0:
		return Finding{check, Unknown, "Temporal does not report the namespace's retention", meaning, remedy}
	case keeps < longest:
		return Finding{check, Problem,
			fmt.Sprintf("closed workflows are retained for %s, but an item may be retried for %s", view.Shortly(keeps),
				view.Shortly(longest)), meaning, remedy}
	case keeps < max(2*longest, leastRetention):
		return Finding{check, Warning,
			fmt.Sprintf("closed workflows are retained for %s, but an item may be retried for %s", view.Shortly(keeps),
				view.Shortly(longest)), meaning, remedy}
	}
	return ok(check, "closed workflows are retained for %s; an item is retried for at most %s, outages excluded",
		view.Shortly(keeps), view.Shortly(longest))
}

// checkPollers checks that workers poll each task queue for the tasks of its definitions.
func checkPollers(ctx context.Context, service workflowservice.WorkflowServiceClient, namespace string,
	queues []operate.TaskQueue) Finding {
	const check = "task queues"
	client, idle := &temporal.Client{Service: service, Namespace: namespace}, []string{}
	for n, q := range queues {
		if n == mostQueues {
			break
		}
		polled, err := client.Polled(ctx, temporal.TaskQueue{Name: q.Name, Kind: q.Kind})
		if err != nil {
			return Finding{check, Unknown, fmt.Sprintf("%s: %s", view.Printable(q.Name), postgres.Redact(err)),
				"It is unknown whether workers are running.",
				"Check that Temporal accepts the queue's name, and that the credentials may describe it."}
		}
		if !polled {
			idle = append(idle, view.Printable(q.Name))
		}
	}
	asked := fmt.Sprint(len(queues))
	if len(queues) > mostQueues {
		asked = fmt.Sprintf("the first %d of %d", mostQueues, len(queues))
	}
	if len(idle) > 0 {
		return Finding{check, Warning, fmt.Sprintf("no worker polls %d of %s: %s", len(idle), asked, shortList(idle)),
			"Workflows and activities on them start but do not progress, and hold slots of their workspaces.",
			"Start the workers, or correct task_queue in pgdispatch.workflow_definitions."}
	}
	return ok(check, "workers poll all of %s", asked)
}

// callbackReachTimeout limits doctor's call to the callback URL.
const callbackReachTimeout = 5 * time.Second

// checkCallbackURL calls the callback URL without a token, which a replica answers as unauthorized. It cannot tell
// whether Temporal's machine reaches the URL, or is allowed to call it.
func checkCallbackURL(ctx context.Context, c config.Config) []Finding {
	if c.CallbackURL == "" {
		return nil
	}
	const check, meaning = "callbacks",
		"Completion callbacks do not arrive. Ends are found by watching and by listing closed workflows, a few seconds later."
	const remedy = "Check that PGDISPATCH_CALLBACK_URL leads to PGDISPATCH_CALLBACK_ADDR of a running replica, " +
		"including any proxy."
	ctx, cancel := context.WithTimeout(ctx, callbackReachTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.CallbackURL, nil)
	if err != nil {
		return []Finding{{check, Problem, postgres.Redact(err).Error(), meaning, remedy}}
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return []Finding{{check, Warning, postgres.Redact(err).Error(), meaning, remedy}}
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		return []Finding{
			{check, Warning, fmt.Sprintf("the URL answers %s to a call without a token; a replica answers 401", response.Status),
				meaning, remedy}}
	}
	return []Finding{ok(check, "the URL leads to a replica; the replicas' logs show whether Temporal may call it")}
}

// checkCodec encodes and decodes a payload of no meaning. Without a codec server it finds one that Temporal's own
// configuration names, which replicas do not use.
func checkCodec(ctx context.Context, c config.Config, namespace string) []Finding {
	const check = "codec"
	if c.Codec.Endpoint == "" {
		named := temporal.CodecOfProfile()
		if named == "" {
			return nil
		}
		return []Finding{{check, Warning, "Temporal's configuration names the codec server " + view.Printable(named) +
			", and PGDISPATCH_CODEC_ENDPOINT is empty", "Payloads are sent to Temporal as JSON that everybody can read.",
			"Set PGDISPATCH_CODEC_ENDPOINT if the workers use that codec."}}
	}
	codec, err := c.Codec.Open(slog.New(slog.DiscardHandler))
	if err != nil {
		return []Finding{{check, Problem, postgres.Redact(err).Error(), "Replicas do not start.",
			"Correct the file, or the variable that names it."}}
	}
	word := &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(`"pgdispatch"`)}
	encoded, err := codec.Encode(ctx, namespace, []*commonpb.Payload{word})
	var failure *temporal.CodecError
	switch {
	case errors.As(err, &failure):
		return []Finding{{check, Problem, postgres.Redact(err).Error(),
			"Nothing is sent to Temporal. Replicas pause, and items wait.", failure.Remedy() + "."}}
	case err != nil:
		return []Finding{{check, Problem, postgres.Redact(err).Error(), "Items may fail.", "See the codec server's log."}}
	case proto.Equal(word, encoded[0]):
		return []Finding{{check, Warning, fmt.Sprintf("%s returns a payload as it is", c.Codec.Endpoint),
			"Payloads are sent to Temporal as JSON that everybody can read.",
			"Check that PGDISPATCH_CODEC_ENDPOINT leads to a codec server that encrypts."}}
	}
	decoded, err := codec.Decode(ctx, namespace, encoded)
	switch {
	case err != nil:
		return []Finding{{check, Warning, postgres.Redact(err).Error(),
			"Results and messages of failures are not decoded, so they are not kept.",
			"Allow the token to decode, unless that is intended."}}
	case !proto.Equal(word, decoded[0]):
		return []Finding{{check, Problem, fmt.Sprintf("%s decodes another payload than it encoded", c.Codec.Endpoint),
			"Workers cannot read their input.", "See the codec server's log."}}
	}
	return []Finding{ok(check, "%s encodes and decodes", c.Codec.Endpoint)}
}
