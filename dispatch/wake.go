package dispatch

import (
	"math"
	"sync"
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
)

const (
	// A commit that notifies holds a cluster-wide lock while it is flushed. When such commits would hold the lock for
	// more than notifyShare of the time, they queue: the dispatcher then stays awake, looks at the table every
	// lookInterval, and needs no notifications.
	notifyShare  = 0.25
	lookInterval = time.Millisecond
	// leastFlush and mostFlush bound the estimated duration of a flush.
	leastFlush = 100 * time.Microsecond
	mostFlush  = 2500 * time.Microsecond
	// flushSpan is for how long at least a claim's flush counts; the shortest is the estimate. A sample includes a round
	// trip and waits for the processor, which on a busy machine take much longer than the flush of the disk: only the
	// shortest of many is near that.
	flushSpan = 10 * time.Second
	// rateSpan is the time constant of the commit rate.
	rateSpan = 20 * time.Millisecond
	// linger is how long the dispatcher stays awake without finding anything.
	linger = 25 * time.Millisecond
	// busyBefore is how long all workers must be busy before the replica leaves duty.
	busyBefore = 10 * time.Millisecond
	// callInterval is the minimum time between two calls to the other replicas.
	callInterval = 50 * time.Millisecond
	// overdue is how long an item found by a poll must have been due before the replica on duty is distrusted. distrust
	// is for how long.
	overdue  = time.Second
	distrust = 30 * time.Second
)

// sleeper decides between sleeping, where every commit of work sends a notification, and looking continuously, which
// costs enqueuers nothing. Only the claim loop uses it.
type sleeper struct {
	awake    bool
	commits  rate          // commits of work, as far as known
	flush    shortest      // of the last claims
	ended    time.Time     // end of the last claim
	took     time.Duration // duration of the last claim
	found    bool          // whether the last claim returned items
	foundAt  time.Time     // end of the last claim that returned items, or when the dispatcher woke
	sleepAt  time.Time     // when sleep was first requested but not yet granted; zero if it is not pending
	lookAt   time.Time     // when to look next; zero means on the next wake-up
	busyAt   time.Time     // when all workers became busy; zero if one is free
	leaveAt  time.Time     // when to leave duty because all are busy; zero if not planned
	calledAt time.Time
}

// rate is an exponentially decaying average of events per second.
type rate struct {
	perSecond float64
	at        time.Time
}

func (r *rate) add(now time.Time, events int) {
	r.perSecond = r.now(now) + float64(events)/rateSpan.Seconds()
	r.at = now
}

func (r *rate) now(now time.Time) float64 {
	return r.perSecond * math.Exp(-now.Sub(r.at).Seconds()/rateSpan.Seconds())
}

// crowded reports whether commits, if they all notified, would hold the lock for more than share of the time.
func (s *sleeper) crowded(now time.Time, share float64) bool {
	flush := min(max(s.flush.now, leastFlush), mostFlush)
	return s.commits.now(now)*flush.Seconds() > share
}

// came records commits that brought work.
func (s *sleeper) came(now time.Time, commits int) {
	s.commits.add(now, commits)
	if !s.awake && s.crowded(now, notifyShare) {
		s.awake, s.foundAt = true, now
	}
}

// measured records how long a claim took and whether it returned items.
func (s *sleeper) measured(began, ended time.Time, found bool) {
	s.ended, s.took, s.found = ended, ended.Sub(began), found
	if found {
		s.foundAt = ended
	}
}

// shortest is the shortest of the durations of the last one or two flushSpans. The zero value has seen none.
type shortest struct {
	now    time.Duration // zero: none
	recent time.Duration // of the current span
	until  time.Time     // when the current span ends
}

func (s *shortest) add(at time.Time, took time.Duration) {
	if at.After(s.until) {
		s.now, s.recent, s.until = s.recent, 0, at.Add(flushSpan)
	}
	s.recent = leastOf(s.recent, took)
	s.now = leastOf(s.now, took)
}

// leastOf returns the lesser of two durations, of which zero means none.
func leastOf(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// woken takes the pending wake-ups. It returns the reason for the log.
func (r *run) woken(now time.Time) (source string) {
	w := r.Wake.take()
	r.look = r.look || w.look
	r.named = append(r.named, w.named...)
	if w.source != WakePoll {
		r.stall.knows(now)
	}
	if w.commits > 0 {
		r.sleeper.came(now, w.commits)
	}
	return w.source
}

// Sources of wake-ups.
const (
	// WakeNotification is a notification from an enqueuer.
	WakeNotification = "notification"
	// WakePoll is a poll: there may be work that was not announced in time.
	WakePoll = "poll"
)

// looked records the answer to a claim.
func (r *run) looked(batch claim.Batch, wanted int, source string) {
	if r.Gate == nil {
		return
	}
	now := time.Now()
	if batch.Arrived > 0 {
		r.sleeper.came(now, batch.Arrived)
	}
	r.sleeper.flush.add(now, batch.Flush)
	if len(batch.Items) > 0 && source == WakePoll && !r.Gate.OnDuty() && batch.Items[0].Waited > overdue {
		r.Gate.Distrust(distrust)
	}
	if len(batch.Items) == wanted && batch.More && !batch.Capped && !r.namespaces.throttled() &&
		now.Sub(r.sleeper.calledAt) > callInterval {
		r.sleeper.calledAt = now
		r.Gate.Call()
	}
}

// steer tells the gate what the dispatcher is about to do, and schedules the next look.
func (r *run) steer(now time.Time) {
	d := &r.sleeper
	d.lookAt, d.leaveAt = time.Time{}, time.Time{}
	switch {
	case r.Gate == nil:
	case r.refused && r.Reached != nil && !r.Reached():
		r.Gate.Busy() // another replica may reach Temporal, and must not wait for its poll
	case r.idle+len(r.started) == 0:
		if d.busyAt.IsZero() {
			d.busyAt = now
		}
		if d.leaveAt = d.busyAt.Add(busyBefore); !now.Before(d.leaveAt) {
			r.Gate.Busy()
		}
	default:
		d.busyAt = time.Time{}
		if d.awake && (now.Sub(d.foundAt) > linger || d.ended.After(d.foundAt) && !d.crowded(now, notifyShare/2)) {
			d.awake = false
		}
		if d.awake {
			r.Gate.Awake()
			d.sleepAt = time.Time{}
			if d.found && r.idle+len(r.started) == r.Workers {
				d.lookAt = now // all items of the last claim are started, and more have come meanwhile
				return
			}
			// The interval counts from the last look, so that finishing workers do not postpone the next one. It is
			// capped, so that a slow claim does not either: while this replica is awake, no commit notifies.
			d.lookAt = d.ended.Add(min(max(lookInterval, d.took), linger))
			return
		}
		r.Gate.Sleep()
		r.waitForSleep(now)
	}
}

// waitForSleep looks at the table while the gate waits for transactions that read it as open and so will not notify.
// The interval grows with the wait, so the work of such a transaction waits not much longer than it was open itself.
func (r *run) waitForSleep(now time.Time) {
	d := &r.sleeper
	switch {
	case !r.Gate.OnDuty() || r.Gate.IsAsleep():
		d.sleepAt = time.Time{}
	case d.sleepAt.IsZero():
		d.sleepAt = now
		d.lookAt = now.Add(lookInterval)
	default:
		d.lookAt = d.ended.Add(max(lookInterval, now.Sub(d.sleepAt)/2))
	}
}

const (
	// mostNamed is the maximum number of payloads kept. A look finds what the others are about.
	mostNamed = 64
	// longestPayload is the maximum length in bytes of a payload that pgdispatch sends.
	longestPayload = 250
)

// Wakeups tell a Dispatcher that there may be work. They are merged until a claim serves them. The zero value is ready
// to use. It is safe for concurrent use, and none of its methods blocks.
type Wakeups struct {
	mu      sync.Mutex
	pending wakeup
	came    chan struct{} // created by wait; filled and emptied together with pending
	once    sync.Once
}

// wakeup is one wake-up, or several that were merged.
type wakeup struct {
	source  string   // of the first, but of one that is no poll if there is any
	look    bool     // the table must be looked at
	named   []string // payloads of notifications
	commits int      // how many commits notified
}

// Ring requests a look at the table. source is the reason, for the log: WakePoll for a poll, which looks for work that
// was not announced.
func (w *Wakeups) Ring(source string) {
	w.add(func(p *wakeup) { p.look = true }, source)
}

// Notified passes on the payload of a notification, which says where there is work. It requests a look instead if the
// payload is empty or too long to be from pgdispatch, or if too many are pending.
func (w *Wakeups) Notified(payload string) {
	w.add(func(p *wakeup) {
		p.commits++
		if payload == "" || len(payload) > longestPayload || len(p.named) == mostNamed {
			p.look = true
			return
		}
		p.named = append(p.named, payload)
	}, WakeNotification)
}

func (w *Wakeups) add(change func(*wakeup), source string) {
	came := w.wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if change(&w.pending); w.pending.source == "" || w.pending.source == WakePoll {
		w.pending.source = source
	}
	select {
	case came <- struct{}{}:
	default:
	}
}

// wait returns a channel that delivers when wake-ups are pending.
func (w *Wakeups) wait() chan struct{} {
	w.once.Do(func() { w.came = make(chan struct{}, 1) })
	return w.came
}

// take returns what came since the last call.
func (w *Wakeups) take() wakeup {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.came: // for what came after the signal that led here
	default:
	}
	taken := w.pending
	w.pending = wakeup{}
	return taken
}
