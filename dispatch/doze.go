package dispatch

import (
	"math"
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
)

const (
	// Notifications that come so close together that commits queue behind one another keep the dispatcher awake: from then on it
	// looks at the table every lookInterval, and nobody notifies it. A commit that notifies holds a lock of the whole cluster while
	// it is flushed, so how close that is follows what a flush takes: notifyShare of the time.
	notifyShare  = 0.25
	lookInterval = time.Millisecond
	// leastFlush and mostFlush bound what a flush is taken for.
	leastFlush = 100 * time.Microsecond
	mostFlush  = 2500 * time.Microsecond
	// rateSpan is over how long the rate of commits is taken.
	rateSpan = 20 * time.Millisecond
	// linger is how long it stays awake without finding anything.
	linger = 25 * time.Millisecond
	// busyBefore is how long all workers must be busy before another replica is put on duty.
	busyBefore = 10 * time.Millisecond
	// callInterval is how often the other replicas are called, at the most.
	callInterval = 50 * time.Millisecond
	// overdue is how long an item must have been due for a poll that finds it to distrust who is on duty, and distrust for
	// how long.
	overdue  = time.Second
	distrust = 30 * time.Second
)

// doze decides between sleep, from which every commit of work wakes the dispatcher by a notification, and looking all the
// time, which costs enqueuers nothing. It belongs to the claim loop.
type doze struct {
	awake    bool
	commits  rate          // of work, as far as is known
	flush    time.Duration // what a commit takes
	ended    time.Time     // the last claim
	took     time.Duration // what it took
	found    bool          // it gave something
	foundAt  time.Time     // the last claim that gave something, or when it woke
	sleepAt  time.Time     // since when sleep is wished for and not granted
	lookAt   time.Time     // when to look next; zero: when told
	busyAt   time.Time     // since when all workers are busy; zero: one is free
	leaveAt  time.Time     // when to leave duty for it; zero: not
	calledAt time.Time
}

// rate is how many events there are a second: each counts less the longer it is ago.
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

// crowded says whether so many commits would queue if they notified, times share.
func (d *doze) crowded(now time.Time, share float64) bool {
	flush := min(max(d.flush, leastFlush), mostFlush)
	return d.commits.now(now)*flush.Seconds() > share
}

// came takes note of commits that brought work.
func (d *doze) came(now time.Time, commits int) {
	d.commits.add(now, commits)
	if !d.awake && d.crowded(now, notifyShare) {
		d.awake, d.foundAt = true, now
	}
}

// claimed takes note of a claim.
func (d *doze) claimed(began, ended time.Time, found bool) {
	d.ended, d.took, d.found = ended, ended.Sub(began), found
	if found {
		d.foundAt = ended
	}
}

// flushed takes note of what a commit took.
func (d *doze) flushed(took time.Duration) {
	if d.flush == 0 {
		d.flush = took
	}
	d.flush += (took - d.flush) / 8
}

// woken takes note of a ring.
func (r *run) woken(source string, now time.Time) {
	if source != WakeNotification || r.Hints == nil {
		r.look = true
	}
	if source != WakeNotification {
		return
	}
	commits := 1
	if r.Hints != nil {
		heard := r.Hints.take()
		commits = len(heard)
		r.named = append(r.named, heard...)
	}
	r.doze.came(now, commits)
}

// Sources of wake-ups.
const (
	// WakeNotification: an enqueuer's.
	WakeNotification = "notification"
	// WakePoll: there is work that nobody has announced in time.
	WakePoll = "poll"
)

// looked takes note of a claim's answer.
func (r *run) looked(batch claim.Batch, wanted int, source string) {
	if r.Gate == nil {
		return
	}
	now := time.Now()
	if batch.Arrived > 0 {
		r.doze.came(now, batch.Arrived)
	}
	if batch.Flush > 0 {
		r.doze.flushed(batch.Flush)
	}
	if len(batch.Items) > 0 && source == WakePoll && !r.Gate.OnDuty() && batch.Items[0].Waited > overdue {
		r.Gate.Distrust(distrust)
	}
	if len(batch.Items) == wanted && batch.More && !batch.Capped && !r.of.throttled() && now.Sub(r.doze.calledAt) > callInterval {
		r.doze.calledAt = now
		r.Gate.Call()
	}
}

// steer tells the gate what the dispatcher is about to do, and sets when to look without being told.
func (r *run) steer(now time.Time) {
	d := &r.doze
	d.lookAt, d.leaveAt = time.Time{}, time.Time{}
	switch {
	case r.Gate == nil:
	case r.refused && r.Reached != nil && !r.Reached():
		r.Gate.Busy() // another may reach Temporal, and is not to wait for its poll
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
				d.lookAt = now // all that it gave is started, and more has come meanwhile
				return
			}
			// From the last look on: what workers end meanwhile must not put the next one off. Nor may one claim that had to
			// wait for long: nobody notifies meanwhile.
			d.lookAt = d.ended.Add(min(max(lookInterval, d.took), linger))
			return
		}
		r.Gate.Sleep()
		r.waitForSleep(now)
	}
}

// waitForSleep looks while the gate waits for a transaction that was told that nobody sleeps, ever more rarely: none waits
// for much longer than it has been open itself.
func (r *run) waitForSleep(now time.Time) {
	d := &r.doze
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
