package temporal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"go.temporal.io/api/workflowservice/v1"
)

const (
	// shortestRetention is the minimum retention that Temporal accepts. Items that have been unanswered for less than
	// that need no lookup. It is assumed if Temporal does not tell the retention.
	shortestRetention = time.Hour
	// greatestMargin caps the safety margin, which is a tenth of the retention: an item is given up that much before
	// Temporal may have forgotten its workflow. The margin covers clock differences and the duration of a start.
	greatestMargin = time.Hour
	// retentionAge is how long a retention is cached.
	retentionAge = time.Minute
)

// ErrForgotten reports an item that must not be started again: an earlier start was never answered. If its workflow
// ran, it may have ended so long ago that Temporal has forgotten it.
var ErrForgotten = errors.New("an earlier start was never answered, and Temporal may no longer retain its workflow")

// memories holds a memory per namespace.
type memories struct{ of sync.Map }

func (m *memories) namespace(name string) *memory {
	found, _ := m.of.LoadOrStore(name, &memory{})
	return found.(*memory)
}

// memory caches a namespace's retention: how long Temporal remembers a workflow after its end. It is read only when an
// item requires it, which is rare, and never at startup, so that a replica can start without Temporal.
type memory struct {
	mu     sync.Mutex
	lasts  time.Duration
	readAt time.Time
}

// mayForget returns an error if the workflow may have run and been forgotten, so that a start would run it
// twice. If Temporal does not answer, the error says so.
func (t *Client) mayForget(ctx context.Context, start Start) error {
	if !start.Unanswered || start.UnansweredFor < remembered(shortestRetention) {
		return nil
	}
	retention, assumed, err := t.retention(ctx, t.namespace(start.Namespace))
	if err != nil {
		return fmt.Errorf("read the namespace's retention: %w", err)
	}
	if start.UnansweredFor < remembered(retention) {
		return nil
	}
	why := fmt.Sprintf("the namespace's retention is %s", retention)
	if assumed != nil {
		why = fmt.Sprintf("the namespace's retention cannot be read, so %s is assumed: %v", retention, assumed)
	}
	return As(engine.Forgotten, fmt.Errorf("%w (first sent %s ago; %s): replay the item if its workflow did not run",
		ErrForgotten, start.UnansweredFor.Round(time.Second), why))
}

// remembered returns how long an item may be started again.
func remembered(retention time.Duration) time.Duration {
	return retention - min(retention/10, greatestMargin)
}

// Retention returns for how long a namespace retains workflows that have ended. If Temporal does not tell that, it is
// the shortest retention that Temporal accepts.
func (t *Client) Retention(ctx context.Context, namespace string) (time.Duration, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout,
		fmt.Errorf("read of the retention timed out after %s", requestTimeout))
	defer cancel()
	retention, _, err := t.retention(ctx, t.namespace(namespace))
	return retention, err
}

// retention returns the namespace's retention, cached for retentionAge. If Temporal answers without telling it,
// retention returns shortestRetention and the reason in assumed.
func (t *Client) retention(ctx context.Context, namespace string) (retention time.Duration, assumed, err error) {
	memory := t.memories.namespace(namespace)
	memory.mu.Lock()
	defer memory.mu.Unlock()
	if !memory.readAt.IsZero() && time.Since(memory.readAt) < retentionAge {
		return memory.lasts, nil, nil
	}
	response, err := t.Service.DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	ttl := response.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration()
	switch {
	case err == nil && ttl > 0:
		memory.lasts, memory.readAt = ttl, time.Now()
		return ttl, nil, nil
	case err == nil:
		return shortestRetention, errors.New("the answer has none"), nil
	case isForbidden(err):
		return shortestRetention, err, nil
	default:
		return 0, nil, err
	}
}
