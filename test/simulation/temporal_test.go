package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

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
	holds   bool            // no start is answered
	hangsTo time.Time       // nor until then
	mute    bool            // starts arrive, and their answers are lost
	// unknownTo is until when Temporal finds none of its workflows.
	unknownTo time.Time
	wrong     string
}

// run is the workflow of an item: a chain of runs, of which only the last may be open, and the signals that each has
// received.
type run struct {
	closed   bool
	closedAt time.Time
	last     int
	received []received
}

// retention is how long Temporal remembers a workflow after its end.
const retention = 5 * time.Minute

// forgot reports whether Temporal has forgotten a workflow.
func (r *run) forgot() bool { return r.closed && time.Since(r.closedAt) > retention }

type received struct {
	signal int64
	by     int
}

// runOf names a run of a workflow.
func runOf(item int64, n int) string { return fmt.Sprintf("%d/%d", item, n) }

func (w *world) namespaceOf(workspace schedule.WorkspaceID) string {
	return []string{"a", "b"}[workspace[0]%2]
}

// broken says what is wrong, or nothing: an open run whose item holds no slot.
func (m *temporalModel) broken() string {
	for item, run := range m.runs {
		if !run.closed && !m.world.tables.Holds(item) && !m.world.tables.Forgotten(item) {
			return fmt.Sprintf("item %d holds no slot, and its workflow runs", item)
		}
	}
	return m.wrong
}

// ends closes a workflow.
func (m *temporalModel) ends() {
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
	if m.world.IntN(4) == 3 {
		m.runs[item].last++
		m.world.say("the workflow of %d continues as new", item)
		m.world.count("continued")
		return
	}
	m.runs[item].closed, m.runs[item].closedAt = true, time.Now()
	m.world.tables.WorkflowEnded(item)
	m.world.say("the workflow of %d ends", item)
	if m.world.IntN(3) == 0 && !m.world.tables.Locked([]int64{item}) { // its worker reports that, too
		tx := m.world.tables.Begin(false)
		m.world.say("its worker reports it: %t", m.world.tables.Finish(tx, item))
		if m.world.notes(tx); m.world.quiet || m.world.IntN(2) == 0 { // otherwise later
			m.world.commits(tx, true)
		}
	}
}

// starter is Temporal as a replica's dispatcher sees it.
type starter struct{ of *replica }

func (s starter) Start(ctx context.Context, item claim.Item) (runID string, outcome engine.Outcome, err error) {
	w, m := s.of.world, &s.of.world.temporal
	c := &call{of: s.of, name: "start", about: item.ID, token: item.Token}
	c.outcome = engine.Unanswered
	refuses := func(outcome engine.Outcome) (error, bool) {
		c.outcome = outcome
		w.count("starts: " + outcome.String())
		return errors.New(outcome.String()), false
	}
	c.blocked = func() bool { return w.lasting.afflicts(item.ID) && w.lasting.hangs }
	c.run = func() (error, bool) {
		w.broken = cmp.Or(w.broken, w.nodes(item))
		afflicted := w.lasting.afflicts(item.ID)
		switch {
		case afflicted && w.lasting.notFound && m.runs[item.ID] != nil:
			return refuses(engine.Permanent)
		case afflicted && !w.lasting.notFound:
			return refuses(w.lasting.outcome)
		case m.blocked[item.Namespace]:
			return refuses(engine.Blocked)
		case m.away:
			return refuses(engine.Unreached)
		case item.Unanswered && item.UnansweredFor > retention-lease && w.lies != "retention is not read":
			return refuses(engine.Forgotten)
		case w.rare(40):
			return refuses(engine.Retryable)
		case w.rare(200), item.Unanswered && (!m.knows() || w.rare(4)):
			return refuses(engine.Permanent)
		case w.rare(40):
			return refuses(engine.Throttled)
		}
		if m.runs[item.ID] == nil {
			if !w.tables.Holds(item.ID) && !w.tables.Forgotten(item.ID) {
				m.wrong = fmt.Sprintf("item %d is started without a slot", item.ID)
			}
			m.runs[item.ID] = &run{}
		}
		if m.runs[item.ID].forgot() && !w.tables.Forgotten(item.ID) && w.counts["clock jumps"] == 0 {
			m.wrong = fmt.Sprintf("item %d is started again, though Temporal has forgotten its workflow", item.ID)
		}
		w.say("%s starts %d", s.of.name, item.ID)
		c.outcome = engine.Started
		return nil, m.mute || afflicted || w.rare(15)
	}
	defer s.of.begins(item)()
	err = w.send(ctx, c)
	if s.of.givenUp(ctx, item); err != nil && (errors.Is(err, errCut) || ctx.Err() != nil) {
		if w.lies == "an unanswered start was not sent" {
			return "", engine.NotSent, err
		}
		return "", engine.Unanswered, err
	}
	return runOf(item.ID, 0), c.outcome, err
}

func (s starter) Find(ctx context.Context, item claim.Item) (runID string, outcome engine.Outcome, err error) {
	m := &s.of.world.temporal
	c := &call{of: s.of, name: "find", about: item.ID, token: item.Token}
	c.run = func() (error, bool) {
		if m.away {
			return errors.New("no connection"), false
		}
		if c.outcome = engine.NotSent; m.finds(item.ID) {
			c.outcome = engine.Started
		}
		return nil, false
	}
	if err = s.of.world.send(ctx, c); err != nil {
		return "", engine.Unanswered, err
	}
	return runOf(item.ID, 0), c.outcome, nil
}

func (starter) Remedy(error, string) string { return "" }

// Wait waits for the end of a workflow.
func (s starter) Wait(ctx context.Context, execution temporal.Execution) (temporal.End, error) {
	m, item := &s.of.world.temporal, itemOf(execution.ID)
	c := &call{of: s.of, name: "wait", about: item}
	c.blocked = func() bool { return m.finds(item) && !m.runs[item].closed }
	c.run = func() (error, bool) {
		switch {
		case m.away:
			return errors.New("no connection"), false
		case !m.finds(item):
			return temporal.ErrMissing, false
		}
		return nil, false
	}
	return temporal.End{Outcome: "COMPLETED"}, s.of.world.send(ctx, c)
}

// Look asks whether a workflow has ended.
func (s starter) Look(ctx context.Context, execution temporal.Execution) (end temporal.End, ended bool, err error) {
	m, item := &s.of.world.temporal, itemOf(execution.ID)
	c := &call{of: s.of, name: "describe", about: item}
	c.run = func() (error, bool) {
		switch {
		case m.away:
			return errors.New("no connection"), false
		case !m.finds(item):
			return temporal.ErrMissing, false
		}
		ended = m.runs[item].closed
		return nil, false
	}
	err = s.of.world.send(ctx, c)
	return temporal.End{Outcome: "COMPLETED"}, ended, err
}

// Retention returns for how long Temporal remembers a workflow.
func (starter) Retention(context.Context, string) (time.Duration, error) { return retention, nil }

// Signal sends a signal. Temporal recognises a repeated one.
func (s starter) Signal(ctx context.Context, signal temporal.Signal) (continues string, err error) {
	w, m, item := s.of.world, &s.of.world.temporal, itemOf(signal.ID)
	id, err := strconv.ParseInt(signal.RequestID, 10, 64)
	if err != nil {
		return "", err
	}
	err = w.send(ctx, &call{of: s.of, name: "signal", about: id, run: func() (err error, lost bool) {
		if m.away {
			return fmt.Errorf("%w: no connection", temporal.ErrAway), false
		}
		if continues, err = m.signal(item, id, signal); err != nil {
			return err, false
		}
		if w.count("signals"); continues != "" {
			w.count("signals to other runs")
		}
		w.say("%s signals %d to %d in %q, which continues in %q", s.of.name, id, item, signal.To, continues)
		return nil, w.rare(8)
	}})
	if errors.Is(err, errCut) || ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", temporal.ErrAway, err)
	}
	if err != nil {
		return "", err
	}
	return continues, nil
}

// signal does what temporal.Client does with the runs of a workflow.
func (m *temporalModel) signal(item, id int64, signal temporal.Signal) (continues string, err error) {
	run := m.runs[item]
	if !m.finds(item) {
		return "", temporal.ErrMissing
	}
	if signal.To == "" {
		return runOf(item, 0), nil
	}
	_, number, _ := strings.Cut(signal.To, "/")
	to, err := strconv.Atoi(number)
	if err != nil {
		return "", err
	}
	switch {
	case slices.Contains(run.received, received{id, to}): // repeated
		return "", nil
	case to < run.last && signal.Unanswered:
		return runOf(item, to+1), nil
	case to < run.last && !run.closed:
		return runOf(item, run.last), nil
	case to < run.last, run.closed:
		return "", temporal.ErrEnded
	}
	for _, r := range run.received {
		if r.signal >= id {
			m.wrong = fmt.Sprintf("the workflow of %d receives signal %d after %v", item, id, run.received)
		}
	}
	run.received = append(run.received, received{id, to})
	return "", nil
}

// finds reports whether Temporal finds the workflow of an item.
func (m *temporalModel) finds(item int64) bool {
	return m.runs[item] != nil && !m.runs[item].forgot() && m.knows()
}

// knows reports whether Temporal knows of its workflows.
func (m *temporalModel) knows() bool { return !time.Now().Before(m.unknownTo) }

// received reports whether a workflow has received a signal.
func (m *temporalModel) received(signal int64) bool {
	for _, run := range m.runs {
		if slices.ContainsFunc(run.received, func(r received) bool { return r.signal == signal }) {
			return true
		}
	}
	return false
}
