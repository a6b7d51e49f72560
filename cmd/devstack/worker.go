package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/converter"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

const (
	// workerDialTimeout bounds the first connection of the worker to Temporal.
	workerDialTimeout = 15 * time.Second
	// nodeTimeout bounds one attempt of a node's activity.
	nodeTimeout = 30 * time.Second
)

// runWorker implements the command worker: it executes whatever the task queue has, and prints it. It finds Temporal
// like pgdispatch, by the variables and the profile file of Temporal's SDKs.
func runWorker(ctx context.Context, args []string, std streams) error {
	flags := flag.NewFlagSet("devstack worker", flag.ContinueOnError)
	queue := flags.String("task-queue", "orders", "`name` of the task queue")
	if err := parse(flags, args, std); err != nil {
		return err
	}
	c, options, err := dialTemporal(ctx, std)
	if err != nil {
		return err
	}
	defer c.Close()
	fatal := make(chan error, 1)
	w := worker.New(c, *queue, worker.Options{OnFatalError: func(err error) {
		select {
		case fatal <- err:
		default:
		}
	}})
	(&echo{log.New(std.out, "", 0)}).register(w)
	if err := w.Start(); err != nil {
		return fmt.Errorf("start the worker: %w", err)
	}
	defer w.Stop()
	_, _ = fmt.Fprintf(std.out, "executing everything on task queue %s of %s at %s; Ctrl-C ends it\n",
		*queue, options.Namespace, options.HostPort)
	select {
	case <-ctx.Done():
		return nil
	case err := <-fatal:
		return fmt.Errorf("the worker ended: %w", err)
	}
}

// dialTemporal connects to the Temporal server that the environment names.
func dialTemporal(ctx context.Context, std streams) (client.Client, client.Options, error) {
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return nil, options, fmt.Errorf("read Temporal's settings: %w", err)
	}
	if options.HostPort == "" {
		options.HostPort = client.DefaultHostPort
	}
	if options.Namespace == "" {
		options.Namespace = client.DefaultNamespace
	}
	options.Logger = sdklog.NewStructuredLogger(
		slog.New(slog.NewTextHandler(std.err, &slog.HandlerOptions{Level: slog.LevelWarn})))
	ctx, cancel := context.WithTimeoutCause(ctx, workerDialTimeout, fmt.Errorf("took longer than %s", workerDialTimeout))
	defer cancel()
	c, err := client.DialContext(ctx, options)
	if err != nil {
		return nil, options, fmt.Errorf("connect to Temporal at %s: %w", options.HostPort, err)
	}
	return c, options, nil
}

// echo executes workflows and activities of any type by printing them.
type echo struct{ out *log.Logger }

func (e *echo) register(w worker.Worker) {
	w.RegisterDynamicWorkflow(e.workflow, workflow.DynamicRegisterOptions{})
	w.RegisterDynamicActivity(e.activity, activity.DynamicRegisterOptions{})
}

// envelope is the part that echo needs of the input that pgdispatch passes to a workflow.
type envelope struct {
	NodeIDs []string        `json:"nodeIds"`
	Params  json.RawMessage `json:"params"`
}

// workflow executes an activity for each node, in the order of the input. An input that is not pgdispatch's envelope
// has no nodes.
func (e *echo) workflow(ctx workflow.Context, args converter.EncodedValues) ([]string, error) {
	var in envelope
	if args.HasValues() {
		if err := args.Get(&in); err != nil {
			in = envelope{}
		}
	}
	info := workflow.GetInfo(ctx)
	say := func(what string, details ...any) {
		if !workflow.IsReplaying(ctx) {
			e.out.Println(append([]any{info.WorkflowExecution.ID, what, info.WorkflowType.Name}, details...)...)
		}
	}
	say("starts", string(in.Params))
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: nodeTimeout})
	for _, node := range in.NodeIDs {
		if err := workflow.ExecuteActivity(ctx, node).Get(ctx, nil); err != nil {
			return nil, err
		}
	}
	say("completes")
	return in.NodeIDs, nil
}

// activity prints the activity's type, which for a node is its ID. A standalone activity has no workflow.
func (e *echo) activity(ctx context.Context, _ converter.EncodedValues) (string, error) {
	info := activity.GetInfo(ctx)
	e.out.Println(cmp.Or(info.WorkflowExecution.ID, info.ActivityID), "executes", info.ActivityType.Name)
	return "done", nil
}
