package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/api/workflowservice/v1"

	"github.com/pgdispatch/pgdispatch/claim"
)

const (
	// shortestRetention is the least that Temporal accepts for a namespace: what is younger need not be looked up, and what is
	// assumed where Temporal does not say.
	shortestRetention = time.Hour
	// greatestMargin and its tenth of the retention are how much earlier than Temporal may forget an item is parked. Clocks are
	// not the same everywhere, and a start takes its time.
	greatestMargin = time.Hour
	// retentionAge is how long a retention that was read is believed.
	retentionAge = time.Minute
)

// ErrForgotten is an item that must not be started again: an earlier start of it was never answered, and if that one ran, it
// may have ended so long ago that Temporal has forgotten it.
var ErrForgotten = errors.New("an earlier start was never answered, and is so long ago that Temporal may have forgotten its workflow")

// memories are one for each namespace.
type memories struct{ of sync.Map }

func (m *memories) namespace(name string) *memory {
	found, _ := m.of.LoadOrStore(name, &memory{})
	return found.(*memory)
}

// memory knows for how long Temporal remembers a workflow after its end: its namespace's retention. It is asked for when it
// matters, which is rare, and never at the start of a replica: that must not need Temporal.
type memory struct {
	mu     sync.Mutex
	lasts  time.Duration
	readAt time.Time
}

// mayForget returns an error when the item's workflow may have run and been forgotten: a start would run it twice. Where that
// cannot be known because Temporal does not answer, the error says that.
func (s *TemporalStarter) mayForget(ctx context.Context, item claim.Item) error {
	if !item.OutcomeUnknown || item.UnansweredFor < remembered(shortestRetention) {
		return nil
	}
	retention, assumed, err := s.retention(ctx, s.namespace(item))
	if err != nil {
		return fmt.Errorf("read the namespace's retention: %w", err)
	}
	if item.UnansweredFor < remembered(retention) {
		return nil
	}
	why := fmt.Sprintf("the namespace's retention is %s", retention)
	if assumed != nil {
		why = fmt.Sprintf("the namespace's retention cannot be read, so %s is assumed: %v", retention, assumed)
	}
	return permanentError{fmt.Errorf("%w (first sent %s ago; %s): replay it if its workflow did not run",
		ErrForgotten, item.UnansweredFor.Round(time.Second), why)}
}

// remembered is for how long an item may be started again.
func remembered(retention time.Duration) time.Duration {
	return retention - min(retention/10, greatestMargin)
}

// retention asks for the namespace's retention, or remembers it. Where Temporal answers without saying, the shortest is
// assumed, and why.
func (s *TemporalStarter) retention(ctx context.Context, namespace string) (retention time.Duration, assumed, err error) {
	memory := s.memories.namespace(namespace)
	memory.mu.Lock()
	defer memory.mu.Unlock()
	if !memory.readAt.IsZero() && time.Since(memory.readAt) < retentionAge {
		return memory.lasts, nil, nil
	}
	response, err := s.Service.DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
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
