package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/claim/schedule"
	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// temporalModel is a Temporal that recognises a repeated start, and may be away.
type temporalModel struct {
	world   *world
	runs    map[int64]*run
	away    bool
	blocked map[string]bool // namespaces
	stays   bool            // no workflow ends
	wrong   string
}

// run is the workflow of an item.
type run struct{ closed bool }

func (w *world) namespaceOf(workspace schedule.WorkspaceID) string {
	return []string{"a", "b"}[workspace[0]%2]
}

// broken says what is wrong, or nothing: an open run whose item holds no slot.
func (m *temporalModel) broken() string {
	for item, run := range m.runs {
		if !run.closed && !m.world.tables.Holds(item) {
			return fmt.Sprintf("item %d holds no slot, and its workflow runs", item)
		}
	}
	return m.wrong
}

// ends closes a workflow.
func (m *temporalModel) ends() {
	if m.stays {
		return
	}
	var open []int64
	for item, run := range m.runs {
		if !run.closed {
			open = append(open, item)
		}
	}
	if len(open) == 0 {
		return
	}
	slices.Sort(open)
	item := open[m.world.IntN(len(open))]
	m.runs[item].closed = true
	m.world.tables.WorkflowEnded(item)
	m.world.say("the workflow of %d ends", item)
}

// starter is Temporal as a replica's dispatcher sees it.
type starter struct{ of *replica }

func (s starter) Start(ctx context.Context, item claim.Item) (runID string, outcome engine.Outcome, err error) {
	w, m := s.of.world, &s.of.world.temporal
	c := &call{of: s.of, name: "start", about: item.ID}
	c.outcome = engine.Unanswered
	refuses := func(outcome engine.Outcome) (error, bool) {
		c.outcome = outcome
		w.count("starts: " + outcome.String())
		return errors.New(outcome.String()), false
	}
	c.run = func() (error, bool) {
		switch {
		case m.blocked[item.Namespace]:
			return refuses(engine.Blocked)
		case m.away:
			return refuses(engine.Unreached)
		case w.rare(40):
			return refuses(engine.Retryable)
		case w.rare(200):
			return refuses(engine.Permanent)
		case w.rare(40):
			return refuses(engine.Throttled)
		}
		if m.runs[item.ID] == nil {
			if !w.tables.Holds(item.ID) {
				m.wrong = fmt.Sprintf("item %d is started without a slot", item.ID)
			}
			m.runs[item.ID] = &run{}
		}
		w.say("%s starts %d", s.of.name, item.ID)
		c.outcome = engine.Started
		return nil, w.rare(15)
	}
	if err = w.send(ctx, c); err != nil && (errors.Is(err, errCut) || ctx.Err() != nil) {
		if w.lies == "an unanswered start was not sent" {
			return "", engine.NotSent, err
		}
		return "", engine.Unanswered, err
	}
	return fmt.Sprint("run of ", item.ID), c.outcome, err
}

func (s starter) Find(ctx context.Context, item claim.Item) (runID string, outcome engine.Outcome, err error) {
	m := &s.of.world.temporal
	c := &call{of: s.of, name: "find", about: item.ID}
	c.run = func() (error, bool) {
		if m.away {
			return errors.New("no connection"), false
		}
		if c.outcome = engine.NotSent; m.runs[item.ID] != nil {
			c.outcome = engine.Started
		}
		return nil, false
	}
	if err = s.of.world.send(ctx, c); err != nil {
		return "", engine.Unanswered, err
	}
	return fmt.Sprint("run of ", item.ID), c.outcome, nil
}

func (starter) Remedy(error, string) string { return "" }

// Wait waits for the end of a workflow.
func (s starter) Wait(ctx context.Context, execution temporal.Execution) (temporal.End, error) {
	m, item := &s.of.world.temporal, itemOf(execution.ID)
	c := &call{of: s.of, name: "wait", about: item}
	c.blocked = func() bool { return m.runs[item] != nil && !m.runs[item].closed }
	c.run = func() (error, bool) {
		if m.away {
			return errors.New("no connection"), false
		}
		return nil, false
	}
	return temporal.End{Outcome: "COMPLETED"}, s.of.world.send(ctx, c)
}
