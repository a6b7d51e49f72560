package proxy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip" // a client may compress
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const (
	// maxMessageBytes is above the limits of both sides: refusing a message is up to Temporal.
	maxMessageBytes = 64 << 20
	// reconnectCap is the longest pause between two attempts to reach Temporal, so that the proxy does not prolong an
	// outage.
	reconnectCap = 100 * time.Millisecond
	// connectTimeout bounds one attempt to reach Temporal.
	connectTimeout = time.Second
)

// Methods for a Rule.
const (
	// Start starts workflows and activities.
	Start = "StartWorkflowExecution|StartActivityExecution"
	// End tells how they have ended.
	End = "GetWorkflowExecutionHistory|PollActivityExecution|DescribeWorkflowExecution|DescribeActivityExecution|" +
		"ListWorkflowExecutions|ListActivityExecutions"
)

// Rule configures what happens to calls of one method. With only Method set, calls are forwarded.
type Rule struct {
	// Method is the last part of the method's name, or several separated by |. Empty means every method.
	Method string
	// Calls is how many calls the rule applies to. Zero means all until the rule is replaced.
	Calls int
	// Share is the fraction of calls that the rule applies to, between 0 and 1. Zero means all.
	Share float64
	// Refuse, if set, is returned as the error without forwarding the call.
	Refuse error
	// Swallow neither forwards the call nor answers it.
	Swallow bool
	// Void forwards the call and never answers: it takes effect, but the caller does not learn of it.
	Void bool
	// Lie, if set, is returned as the error although the call is forwarded.
	Lie error
	// Delay delays the answer.
	Delay time.Duration
}

// Frontend is a proxy that distinguishes Temporal's methods and forwards messages as raw bytes.
type Frontend struct {
	// Address is the address on which it listens.
	Address string

	server   *grpc.Server
	upstream *grpc.ClientConn
	steps    *Steps

	mu   sync.Mutex
	rule Rule
	left int
	hits int
	done chan struct{} // closed when the rule is replaced, which ends the held calls
}

// NewFrontend starts a proxy for Temporal's frontend. Its calls are steps.
func NewFrontend(target string, steps *Steps) (*Frontend, error) {
	upstream, err := grpc.NewClient("passthrough:///"+target,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(raw{}), grpc.MaxCallRecvMsgSize(maxMessageBytes),
			grpc.MaxCallSendMsgSize(maxMessageBytes)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: reconnectCap / 4, Multiplier: 1.5, MaxDelay: reconnectCap},
			MinConnectTimeout: connectTimeout,
		}))
	if err != nil {
		return nil, fmt.Errorf("make client of Temporal: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start proxy of Temporal: %w", err), upstream.Close())
	}
	f := &Frontend{Address: listener.Addr().String(), upstream: upstream, steps: steps,
		done: make(chan struct{})}
	f.server = grpc.NewServer(grpc.ForceServerCodecV2(raw{}), grpc.UnknownServiceHandler(f.handle),
		grpc.MaxRecvMsgSize(maxMessageBytes), grpc.MaxSendMsgSize(maxMessageBytes))
	go func() { _ = f.server.Serve(listener) }()
	return f, nil
}

// Close stops the proxy and its calls.
func (f *Frontend) Close() error {
	f.server.Stop()
	return f.upstream.Close()
}

// Set replaces the rule. Calls held by the previous rule are answered with Unavailable.
func (f *Frontend) Set(rule Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.done)
	f.rule, f.left, f.hits, f.done = rule, rule.Calls, 0, make(chan struct{})
}

// Hits returns how many calls the current rule was applied to.
func (f *Frontend) Hits() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hits
}

// ruleFor returns the rule if it applies to this call, and the channel that is closed when it is replaced.
func (f *Frontend) ruleFor(method string) (Rule, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.rule
	if r.Method != "" && !slices.Contains(strings.Split(r.Method, "|"), path.Base(method)) ||
		r.Calls > 0 && f.left == 0 ||
		r.Share > 0 && rand.Float64() >= r.Share {
		return Rule{}, f.done
	}
	f.left--
	f.hits++
	return r, f.done
}

var errHeld = status.Error(codes.Unavailable, "the connection broke")

// handle serves every method. All of Temporal's methods are unary.
func (f *Frontend) handle(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	ctx := stream.Context()
	var request, response []byte
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	a, ok := f.steps.ask(ctx.Done(), path.Base(method))
	if !ok {
		return status.FromContextError(ctx.Err()).Err()
	}
	err := f.forward(ctx, method, &request, &response)
	if !f.steps.answer(ctx.Done(), a) {
		return status.FromContextError(ctx.Err()).Err()
	}
	if err != nil {
		return err
	}
	return stream.SendMsg(&response)
}

// forward sends a call to Temporal, as the rule says.
func (f *Frontend) forward(ctx context.Context, method string, request, response *[]byte) error {
	rule, lifted := f.ruleFor(method)
	hold := func(wait <-chan time.Time) error {
		select {
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-lifted:
			return errHeld
		case <-wait:
			return nil
		}
	}
	switch {
	case rule.Refuse != nil:
		return rule.Refuse
	case rule.Swallow:
		return hold(nil)
	}
	if incoming, ok := metadata.FromIncomingContext(ctx); ok {
		ctx = metadata.NewOutgoingContext(ctx, passedOn(incoming))
	}
	err := f.upstream.Invoke(ctx, method, request, response)
	switch {
	case rule.Void:
		return hold(nil)
	case rule.Lie != nil:
		return rule.Lie
	case rule.Delay > 0:
		if held := hold(time.After(rule.Delay)); held != nil {
			return held
		}
	}
	return err
}

// passedOn removes the headers that the outgoing connection sets itself.
func passedOn(incoming metadata.MD) metadata.MD {
	outgoing := metadata.MD{}
	for name, values := range incoming {
		if !strings.HasPrefix(name, ":") && !strings.HasPrefix(name, "grpc-") &&
			name != "content-type" && name != "user-agent" {
			outgoing[name] = values
		}
	}
	return outgoing
}

// raw is a codec that does not decode messages.
type raw struct{}

// Name is the content type's name that is forwarded.
func (raw) Name() string { return "proto" }

// Marshal returns the message's bytes.
func (raw) Marshal(message any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*message.(*[]byte))}, nil
}

// Unmarshal stores the message's bytes.
func (raw) Unmarshal(data mem.BufferSlice, message any) error {
	*message.(*[]byte) = data.Materialize()
	return nil
}
