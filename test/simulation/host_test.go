package simulation

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/claim/schedule"
	"github.com/pgdispatch/pgdispatch/complete"
	"github.com/pgdispatch/pgdispatch/dispatch"
	"github.com/pgdispatch/pgdispatch/notify"
	"github.com/pgdispatch/pgdispatch/request"
	"github.com/pgdispatch/pgdispatch/sweeper"
)

// replica is the product's own code, wired as package replica does.
type replica struct {
	world *world
	n     int
	name  string
	dead  bool
	deaf  bool     // its listener is not connected
	notes []string // notifications that have not arrived

	lost                   map[claim.Held]bool          // leases that it was told are lost while it waited for a start
	starting               map[claim.Held]*startedLease // starts that have not returned
	unreported             map[int64]bool               // started items that were settled and not reported
	declined               int                          // claims in a row that claim_plain declined
	vain                   int                          // claims in a row that gave nothing and asked for another at once
	rated                  map[schedule.WorkspaceID]int // the same since the last load, by workspace
	cutTo                  time.Time                    // until then nothing that it sends arrives
	unlucky                bool                         // a trigger has just rejected something
	parked                 []time.Time                  // when it parked items, in the last minute
	sawKept                time.Time                    // its first look that saw the transaction kept as the oldest
	lookedAt, lookedBefore time.Time                    // the last look that was answered and the one before
	unansweredDue          time.Time                    // of the first start to repeat that its last look saw; zero: none
	looked                 func()                       // notes what the look that has just run saw, once it is answered
	fresh                  bool                         // its claim prefers other items to unanswered starts
	passedOver             bool                         // a claim was given no start to repeat, and is not answered yet
	passedOverAt           time.Time                    // when such a claim was answered last

	claims   *claim.Store
	dispatch *dispatch.Dispatcher
	watcher  *complete.Watcher
	signaler *request.Signaler
	gate     *notify.Gate
	wake     dispatch.Wakeups
	sweeps   chan struct{}
	session  *gateSession
	stop     context.CancelFunc
	parts    errgroup.Group
}

// join starts another replica.
func (w *world) join() {
	n := len(w.all) + 1
	r := &replica{world: w, n: n, name: fmt.Sprint("r", n), sweeps: make(chan struct{}, 1),
		lost: map[claim.Held]bool{}, starting: map[claim.Held]*startedLease{}, unreported: map[int64]bool{},
		rated: map[schedule.WorkspaceID]int{}}
	poll := 5 * time.Second
	if w.quiet {
		poll = time.Hour
	}
	log := slog.New(slog.DiscardHandler)
	async := &database{of: r, async: true}
	ends := complete.NewEnds(&complete.Postgres{DB: async, Owner: r.name}, nil)
	r.claims = &claim.Store{Pool: &database{of: r}, Async: async, Owner: r.name, Lease: lease,
		SetBack: func() { poke(r.sweeps) }}
	r.watcher = &complete.Watcher{Store: &complete.Postgres{DB: async, Owner: r.name}, Ends: ends, Waiter: starter{r},
		Missing:    &complete.Missing{Store: &complete.Postgres{DB: async, Owner: r.name}, Temporal: starter{r}, Log: log},
		MaxWatches: 8, Freed: func() { r.wake.Ring("completion") }, Log: log}
	r.claims.CanWatch, r.claims.Full = r.watcher.HasRoom, ends.Hurry
	ends.MayWait = func(executionID string) bool {
		workspace := r.watcher.SlotOf(executionID)
		return workspace != "" && !r.claims.AwaitsSlot(workspace)
	}
	r.gate = &notify.Gate{Connect: r.connect, Interval: poll, Shutting: func() { r.wake.Ring("gate") }, Log: log}
	r.dispatch = &dispatch.Dispatcher{Store: leases{r.claims, r}, Starter: starter{r}, Workers: perHost, Lease: lease,
		StartTimeout: []time.Duration{3 * time.Second, 9 * time.Second}[n%2], DrainTimeout: 5 * time.Second,
		Wake: &r.wake, Gate: r.gate,
		Namespaces: func() []string { return []string{"a", "b"} }, Log: log,
		Dispatched: func(item *claim.Item, runID string) {
			w.mu.Lock()
			delete(r.unreported, item.ID)
			w.mu.Unlock()
			execution := item.Execution()
			execution.RunID = runID
			r.watcher.WatchSlot(item.Frees(), execution)
			r.signaler.Started(execution.ID)
		}}
	r.signaler = &request.Signaler{Store: &request.Postgres{DB: async}, Temporal: starter{r},
		Wake: make(chan struct{}, 1), Log: log}
	sweeps := &sweeper.Sweeper{Store: &sweeper.Postgres{DB: async, Owner: r.name}, Interval: poll, Lease: lease,
		Wake: r.sweeps, Found: func() { r.wake.Ring("sweeper") }, Log: log,
		Saw: func(swept sweeper.Swept, err error) {
			if err == nil {
				r.wake.Ring(dispatch.WakePoll)
				if swept.Signals {
					r.signaler.Announced(true)
				}
				r.watcher.Unwatched(swept.Unwatched || swept.Mine > r.watcher.Watching())
			}
		}}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	w.replicas, w.all = append(w.replicas, r), append(w.all, r)
	for _, part := range []func(context.Context) error{r.dispatch.Run, ends.Run, r.watcher.Run, r.gate.Run, sweeps.Run,
		r.signaler.Run, r.listens} {
		r.parts.Go(func() error { return part(ctx) })
	}
}

// listens connects the listener again once it is lost. What was notified meanwhile is gone.
func (r *replica) listens(ctx context.Context) error {
	for tick := time.Tick(500 * time.Millisecond); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		}
		r.world.mu.Lock()
		deaf := r.deaf
		r.deaf = false
		r.world.mu.Unlock()
		if deaf {
			r.notified("")
		}
	}
}

// ofSignals stands for a notification on the channel of signals.
const ofSignals = "signals"

func (r *replica) notified(payload string) {
	if payload == ofSignals {
		r.signaler.Announced(r.gate.OnDuty())
		return
	}
	if r.gate.OnDuty() {
		r.wake.Notified(payload)
	}
}

func poke(part chan<- struct{}) {
	select {
	case part <- struct{}{}:
	default:
	}
}

// gateSession is a session of the simulated Postgres: see sql/notify/gate.sql.
type gateSession struct {
	of     *replica
	broken bool
}

func (r *replica) connect(ctx context.Context) (notify.GateSession, error) {
	s := &gateSession{of: r}
	_, err := s.does(ctx, "gate: connect", func() bool { r.session = s; return true })
	return s, err
}

// breaks ends a replica's gate session.
func (r *replica) breaks() {
	if r.session == nil {
		return
	}
	if r.session.broken = true; r.world.duty == r.session {
		r.world.duty = nil
	}
}

// does carries out a statement of the session.
func (s *gateSession) does(ctx context.Context, name string, what func() bool) (is bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	err = s.of.world.send(ctx, &call{of: s.of, name: name, run: func() (error, bool) {
		if s.broken {
			return errCut, false
		}
		is = what()
		s.of.world.say("%s: %s: %t", s.of.name, name, is)
		return nil, false
	}})
	return is && err == nil, err
}

func (s *gateSession) TakeDuty(ctx context.Context) (bool, error) {
	return s.does(ctx, "gate: take duty", func() bool {
		w := s.of.world
		if w.duty == nil {
			w.duty = s
		}
		return w.duty == s
	})
}

func (s *gateSession) Leave(ctx context.Context) error {
	_, err := s.does(ctx, "gate: leave", func() bool {
		w := s.of.world
		if w.shut = false; w.duty == s {
			w.duty = nil
		}
		return true
	})
	return err
}

func (s *gateSession) Shut(ctx context.Context) (bool, error) {
	return s.does(ctx, "gate: shut", func() bool {
		w := s.of.world
		w.shut = true
		for _, told := range w.told {
			if told.open {
				return false
			}
		}
		return true
	})
}

func (s *gateSession) Open(ctx context.Context) error {
	_, err := s.does(ctx, "gate: open", func() bool { s.of.world.shut = false; return true })
	return err
}

func (s *gateSession) Call(ctx context.Context, _ string) error {
	_, err := s.does(ctx, "gate: call", func() bool {
		for _, r := range s.of.world.replicas {
			if !r.deaf {
				r.gate.Called()
				r.wake.Ring("call")
			}
		}
		return true
	})
	return err
}

func (s *gateSession) Ping(ctx context.Context) error {
	_, err := s.does(ctx, "gate: ping", func() bool { return true })
	return err
}

func (s *gateSession) Close(context.Context) error {
	s.of.world.mu.Lock()
	defer s.of.world.mu.Unlock()
	if s.of.world.duty == s {
		s.of.world.duty = nil
	}
	s.broken = true
	return nil
}
