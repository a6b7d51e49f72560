package notify

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sethvargo/go-retry"
)

// HelpChannel is the one on which a replica calls the others: it has more work than workers, or has left duty.
const HelpChannel = "pgdispatch_help"

const (
	// gateRetryBase and gateRetryCap bound the pauses between tries to connect the gate's session.
	gateRetryBase = 100 * time.Millisecond
	gateRetryCap  = 3 * time.Second
	// shutRetryBase is the first pause before the gate is shut again, where a transaction was under way that had been told that
	// nobody sleeps. Each pause is half of the time since the first try, up to Gate.Interval.
	shutRetryBase = time.Millisecond
)

// wish is what the dispatcher wants of the gate.
type wish int

const (
	// leave: not to be the one that is woken, because all workers are busy.
	leave wish = iota
	// shut: to be woken for every commit, because the dispatcher is about to sleep.
	shut
	// open: not to be notified, because the dispatcher looks at the table all the time.
	open
)

// GateSession is the connection that sets the gate and holds duty: claim.Session.
type GateSession interface {
	TakeDuty(ctx context.Context) (bool, error)
	Leave(ctx context.Context) error
	Shut(ctx context.Context) (bool, error)
	Open(ctx context.Context) error
	Call(ctx context.Context, channel string) error
	Ping(ctx context.Context) error
	Close(ctx context.Context) error
}

// Gate makes sleep safe without making enqueuers notify all the time: see functions/wake.sql. One replica is on duty; the
// others sleep without holding the gate, because the one on duty either is woken or calls them. It leaves duty when all its
// workers are busy. If it dies, the others' polls find what it missed, and one of them takes duty.
//
// Its fields are set before Run and not changed after.
type Gate struct {
	// Connect dials a new session each time it is called.
	Connect func(ctx context.Context) (GateSession, error)
	// Interval is how often a replica that is not on duty tries to be, and how often the session is pinged.
	Interval time.Duration
	// Shutting is called when the gate has been shut: what was committed while it was open can be seen now, and is not
	// announced. It must not block.
	Shutting func()
	Log      *slog.Logger

	mu      sync.Mutex
	wish    wish
	call    bool
	retry   bool      // try for duty now
	aloneTo time.Time // until then, shut the gate even though another is on duty
	duty    bool
	asleep  bool          // the gate is shut, and whoever was told otherwise has ended
	changed chan struct{} // made by init
	once    sync.Once

	// Of the goroutine in Run.
	opened bool      // it has opened the gate, and nobody on duty has shut it since
	shutAt time.Time // when it first tried to shut the gate; zero: it is not trying
	tryAt  time.Time // when to try again
}

func (g *Gate) init() { g.once.Do(func() { g.changed = make(chan struct{}, 1) }) }

// tell changes what the gate's goroutine is to do, and wakes it.
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

// Sleep wants the gate shut: the dispatcher is about to sleep. It does not wait for it, nor do Awake and Busy.
func (g *Gate) Sleep() { g.want(shut) }

// Awake wants the gate open: the dispatcher looks at the table all the time.
func (g *Gate) Awake() { g.want(open) }

// Busy wants to leave duty: all workers are busy.
func (g *Gate) Busy() { g.want(leave) }

func (g *Gate) want(wish wish) {
	g.mu.Lock()
	same := g.wish == wish
	g.mu.Unlock()
	if !same {
		g.tell(func() { g.wish = wish })
	}
}

// Call calls the other replicas.
func (g *Gate) Call() { g.tell(func() { g.call = true }) }

// Called says that another replica has called: it may have left duty.
func (g *Gate) Called() { g.tell(func() { g.retry = true }) }

// Distrust says that work was found that the one on duty should have noticed: for that long, be woken beside it.
func (g *Gate) Distrust(how time.Duration) { g.tell(func() { g.aloneTo = time.Now().Add(how) }) }

// OnDuty says whether notifications are meant for this replica.
func (g *Gate) OnDuty() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.duty || time.Now().Before(g.aloneTo)
}

// IsAsleep says whether the gate is shut, so that every commit of work notifies.
func (g *Gate) IsAsleep() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asleep
}

// Run keeps a session and does what is wanted of it until ctx is cancelled, and returns nil then.
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
		_ = session.Close(closing) // its locks end with it, whatever it says
		cancel()
		if err != nil && ctx.Err() == nil {
			g.Log.WarnContext(ctx, "Wake gate lost its session: wake-ups come from the poll until it is back", "error", err)
		}
	}
	return nil
}

func (g *Gate) connect(ctx context.Context) (session GateSession, err error) {
	backoff := retry.WithJitterPercent(20, retry.WithCappedDuration(gateRetryCap, retry.NewExponential(gateRetryBase)))
	err = retry.Do(ctx, backoff, func(ctx context.Context) error {
		session, err = g.Connect(ctx)
		return retry.RetryableError(err)
	})
	return session, err
}

// serve brings the session to what is wanted, one statement at a time.
func (g *Gate) serve(ctx context.Context, session GateSession) error {
	ticker := time.NewTicker(g.Interval)
	defer ticker.Stop()
	g.opened, g.shutAt = false, time.Time{}
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
			g.mu.Lock()
			tryDuty, g.retry = g.retry || !g.duty, false
			g.mu.Unlock()
		case <-ticker.C:
			if err := g.confirm(ctx, session); err != nil {
				return err
			}
			tryDuty = true
		}
	}
	return nil
}

// confirm finds out whether the session still lives, and sets the gate once more: another may have moved it.
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

// step does the next thing that is wanted, and returns whether there may be another.
func (g *Gate) step(ctx context.Context, session GateSession, tryDuty bool) (busy bool, err error) {
	g.mu.Lock()
	wish, call, duty, asleep, alone := g.wish, g.call, g.duty, g.asleep, time.Now().Before(g.aloneTo)
	g.call = false
	g.mu.Unlock()

	if wish != shut || !duty && !alone {
		g.shutAt = time.Time{}
		if asleep {
			g.set(duty, false)
		}
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
		g.set(duty, asleep)
		return duty || alone, nil
	case wish == open && duty && !g.opened:
		g.opened = true
		return true, session.Open(ctx)
	case wish == shut && (duty || alone) && !asleep && (g.shutAt.IsZero() || !time.Now().Before(g.tryAt)):
		return true, g.shut(ctx, session, duty)
	}
	return false, nil
}

// shut shuts the gate. From the first try on, whoever commits work notifies; the tries go on until nobody is under way who was
// told before that this is not needed.
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
