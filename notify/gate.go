package notify

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/attempt"
	"github.com/sethvargo/go-retry"
)

// HelpChannel is the channel on which a replica calls the others, because it has more work than workers or has left
// duty.
const HelpChannel = "pgdispatch_help"

const (
	// gateRetryBase and gateRetryCap bound the backoff between attempts to connect the gate's session.
	gateRetryBase = 100 * time.Millisecond
	gateRetryCap  = 3 * time.Second
	// shutRetryBase is the first pause before Shut is retried, if transactions are in progress that read the gate as
	// open. Each pause is half of the time since the first attempt, up to Gate.Interval.
	shutRetryBase = time.Millisecond
)

// wish is the state of the gate that the dispatcher wants.
type wish int

const (
	// leave duty, because all workers are busy.
	leave wish = iota
	// shut the gate, so that every commit wakes the dispatcher, which is about to sleep.
	shut
	// open the gate: no notifications are needed, because the dispatcher looks at the table continuously.
	open
)

// GateSession is the connection that sets the gate and holds duty. Session implements it.
type GateSession interface {
	TakeDuty(ctx context.Context) (bool, error)
	Leave(ctx context.Context) error
	Shut(ctx context.Context) (bool, error)
	Open(ctx context.Context) error
	Call(ctx context.Context, channel string) error
	Ping(ctx context.Context) error
	Close(ctx context.Context) error
}

// Gate makes sleeping safe without requiring enqueuers to notify all the time: see sql/notify/gate.sql. One replica is
// on duty. The others sleep without shutting the gate, because the replica on duty is either woken or calls them. It
// leaves duty when all its workers are busy. If it dies, the others' polls find the work that it missed, and one of
// them takes duty.
//
// Its fields must be set before Run and must not change afterwards.
type Gate struct {
	// Connect dials a new session on each call.
	Connect func(ctx context.Context) (GateSession, error)
	// Interval is how often a replica that is not on duty tries to take it, and how often the session is checked.
	Interval time.Duration
	// Shutting is called once the gate is shut. Work that was committed while it was open is visible now, but is not
	// announced. Shutting must not block.
	Shutting func()
	Log      *slog.Logger

	mu      sync.Mutex
	wish    wish
	call    bool
	aloneTo time.Time // until then, shut the gate even if another replica is on duty
	duty    bool
	asleep  bool          // the gate is shut, and all transactions that read it as open have ended
	changed chan struct{} // created by init
	once    sync.Once

	// Used only by the goroutine in Run.
	opened bool      // the session opened the gate, and has not shut it or left duty since
	shutAt time.Time // first attempt to shut the gate; zero if no attempt is in progress
	tryAt  time.Time // when to retry
}

func (g *Gate) init() { g.once.Do(func() { g.changed = make(chan struct{}, 1) }) }

// tell changes what the gate's goroutine has to do, and wakes it.
func (g *Gate) tell(change func()) {
	g.init()
	g.mu.Lock()
	change()
	g.mu.Unlock()
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

// Sleep requests that the gate be shut, because the dispatcher is about to sleep. Like Awake and Busy, it does not
// wait.
func (g *Gate) Sleep() { g.want(shut) }

// Awake requests that the gate be opened, because the dispatcher looks at the table continuously.
func (g *Gate) Awake() { g.want(open) }

// Busy requests to leave duty, because all workers are busy.
func (g *Gate) Busy() { g.want(leave) }

func (g *Gate) want(wish wish) {
	g.mu.Lock()
	same := g.wish == wish
	g.mu.Unlock()
	if !same {
		g.tell(func() { g.wish = wish })
	}
}

// Call wakes the other replicas.
func (g *Gate) Call() { g.tell(func() { g.call = true }) }

// Called tells the gate that another replica called. That replica may have left duty.
func (g *Gate) Called() { g.tell(func() {}) }

// Distrust reports work of which the replica on duty should have been notified. For that long, this replica shuts the
// gate and is woken as well.
func (g *Gate) Distrust(how time.Duration) { g.tell(func() { g.aloneTo = time.Now().Add(how) }) }

// OnDuty reports whether notifications are meant for this replica.
func (g *Gate) OnDuty() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.duty || time.Now().Before(g.aloneTo)
}

// IsAsleep reports whether the gate is shut, so that every commit of work notifies.
func (g *Gate) IsAsleep() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asleep
}

// Run keeps a session and carries out the requests until ctx is cancelled. It returns nil then.
func (g *Gate) Run(ctx context.Context) error {
	g.init()
	for ctx.Err() == nil {
		session, err := g.connect(ctx)
		if err != nil {
			return nil // ctx is cancelled
		}
		err = g.serve(ctx, session)
		g.mu.Lock()
		g.duty, g.asleep = false, false
		g.mu.Unlock()
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		_ = session.Close(closing) // its locks end with the session, even after an error
		cancel()
		if err != nil && ctx.Err() == nil {
			g.Log.WarnContext(ctx, "Wake gate lost its session; polling until it reconnects", "error", err)
		}
	}
	return nil
}

func (g *Gate) connect(ctx context.Context) (session GateSession, err error) {
	backoff := attempt.Backoff(gateRetryBase, gateRetryCap)
	err = retry.Do(ctx, backoff, func(ctx context.Context) error {
		session, err = g.Connect(ctx)
		return retry.RetryableError(err)
	})
	return session, err
}

// serve applies the requests to the session, one statement at a time.
func (g *Gate) serve(ctx context.Context, session GateSession) error {
	ticker := time.NewTicker(g.Interval)
	g.opened = false
	tryDuty := true
	for ctx.Err() == nil {
		busy, err := g.step(ctx, session, tryDuty)
		if err != nil {
			return err
		}
		tryDuty = false
		if busy {
			continue
		}
		var again <-chan time.Time
		if !g.shutAt.IsZero() {
			again = time.After(time.Until(g.tryAt))
		}
		select {
		case <-ctx.Done():
		case <-again:
		case <-g.changed:
			tryDuty = true
		case <-ticker.C:
			if err := g.confirm(ctx, session); err != nil {
				return err
			}
			tryDuty = true
		}
	}
	return nil
}

// confirm checks that the session is alive and sets the gate again, because another session may have changed it.
func (g *Gate) confirm(ctx context.Context, session GateSession) error {
	g.mu.Lock()
	duty, asleep := g.duty, g.asleep
	g.mu.Unlock()
	switch {
	case asleep:
		done, err := session.Shut(ctx)
		g.set(duty, done)
		return err
	case g.opened:
		return session.Open(ctx)
	}
	return session.Ping(ctx)
}

// step takes the next step that is due. It reports whether another may follow at once.
func (g *Gate) step(ctx context.Context, session GateSession, tryDuty bool) (busy bool, err error) {
	g.mu.Lock()
	wish, call, duty, asleep, alone := g.wish, g.call, g.duty, g.asleep, time.Now().Before(g.aloneTo)
	g.call = false
	g.mu.Unlock()

	if wish != shut || !duty && !alone {
		g.shutAt, asleep = time.Time{}, false
		g.set(duty, asleep)
	}
	switch {
	case wish == leave && duty:
		if err := session.Leave(ctx); err != nil {
			return false, err
		}
		g.set(false, false)
		g.opened = false
		return true, session.Call(ctx, HelpChannel)
	case call:
		return true, session.Call(ctx, HelpChannel)
	case wish != leave && !duty && tryDuty:
		duty, err := session.TakeDuty(ctx)
		if err != nil {
			return false, err
		}
		g.set(duty, asleep && !duty) // the replica that was on duty may have opened the gate
		return duty || alone, nil
	case wish == open && duty && !g.opened:
		g.opened = true
		return true, session.Open(ctx)
	case wish == shut && (duty || alone) && !asleep && (g.shutAt.IsZero() || !time.Now().Before(g.tryAt)):
		return true, g.shut(ctx, session, duty)
	}
	return false, nil
}

// shut tries to shut the gate. From the first attempt on, every commit of work notifies. The attempts are repeated
// until no transaction is left that read the gate as open.
func (g *Gate) shut(ctx context.Context, session GateSession, duty bool) error {
	g.opened = false
	done, err := session.Shut(ctx)
	if err != nil {
		return err
	}
	if !done {
		now := time.Now()
		if g.shutAt.IsZero() {
			g.shutAt = now
		}
		g.tryAt = now.Add(min(max(shutRetryBase, now.Sub(g.shutAt)/2), g.Interval))
		return nil
	}
	g.shutAt = time.Time{}
	g.set(duty, true)
	g.Shutting()
	return nil
}

func (g *Gate) set(duty, asleep bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.duty, g.asleep = duty, asleep
}
