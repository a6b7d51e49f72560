package dispatch

import "time"

const (
	// slowest is the rate that is never gone below: starts per second of this replica. They are the probes that find out that
	// Temporal takes more again.
	slowest = 1
	// cutInterval is how far apart two cuts of the rate are at the least, so that one is felt before the next.
	cutInterval = time.Second
	// regrowth is how long the rate takes to grow back to what it was before it was halved, and steepen how long it grows
	// unrefused until it grows twice as fast: a limit that was lifted is left behind in a minute or two.
	regrowth = 5 * time.Second
	steepen  = 10 * time.Second
	// freeAfter is how long the limiter must not have held anything back to be of no use any more.
	freeAfter = 5 * time.Second
	// grantsPerSecond is how often starts are let through, at the most: at a high rate a claim takes several.
	grantsPerSecond = 50
)

// limiter slows starts down to what Temporal takes: the rate is halved when Temporal says that too much is asked of it, and
// grows back by as much every second.
//
// It limits a rate, and not how many starts are under way at once: Temporal's limits are of requests per second, and one
// worker that is answered within a millisecond can exceed them alone. Each replica finds a rate of its own, without knowing
// of the others: refused is whoever asks when the limit of the namespace is used up, so their sum is what settles.
//
// It belongs to the claim loop: it is not safe for concurrent use.
type limiter struct {
	rate   float64 // starts per second; 0: not limited
	growth float64 // by how much the rate grows in a second
	tokens float64 // starts that are allowed now
	at     time.Time
	cutAt  time.Time
	// steepenAt is when growth doubles.
	steepenAt time.Time
	heldAt    time.Time // when something was last held back
	short     bool      // less was allowed than was asked for
	until     time.Time // when more is allowed; zero: nothing is held back

	answered, taken meter
}

func (l *limiter) limits() bool { return l.rate > 0 }

// learn takes note of an answer to a start that was sent at a time, and says whether it slows an unlimited replica down.
func (l *limiter) learn(now, sent time.Time, refused bool) (slows bool) {
	l.answered.add(now)
	if !refused {
		l.taken.add(now)
		return false
	}
	// What was under way when the rate was cut says nothing about the rate since.
	if l.limits() && (sent.Before(l.cutAt) || now.Sub(l.cutAt) < cutInterval) {
		return false
	}
	slows = !l.limits()
	was := l.rate
	if slows {
		was = l.answered.rate(now)
	}
	// Less than half where much less was taken: what was far too fast need not find it out step by step.
	l.rate = max(slowest, min(was/2, l.taken.rate(now)))
	l.growth = l.rate / regrowth.Seconds()
	l.tokens, l.at, l.cutAt, l.heldAt, l.steepenAt = 0, now, now, now, now.Add(steepen)
	return slows
}

// allows says how many of the wanted items may be claimed now, so that they can be started at once.
func (l *limiter) allows(now time.Time, wanted int, hungry bool) int {
	l.until, l.short = time.Time{}, false
	if !l.limits() || wanted == 0 {
		return wanted
	}
	l.grow(now)
	grant := min(float64(wanted), l.grant())
	if l.tokens < grant {
		// A moment later than computed, so that it is not just too early.
		l.until = now.Add(time.Duration((grant-l.tokens)/l.rate*float64(time.Second)) + time.Microsecond)
		if hungry {
			l.heldAt = now
		}
		return 0
	}
	allowed := min(wanted, int(l.tokens))
	l.short = allowed < wanted
	return allowed
}

// claimed takes note of what was claimed of what was allowed.
func (l *limiter) claimed(now time.Time, items int, all bool) {
	if l.limits() {
		l.tokens -= float64(items)
	}
	if all && l.short {
		l.heldAt = now
	}
}

// frees says whether the limiter has ended, because it has held nothing back for a while.
func (l *limiter) frees(now time.Time) bool {
	if !l.limits() || now.Sub(l.heldAt) < freeAfter {
		return false
	}
	*l = limiter{answered: l.answered, taken: l.taken}
	return true
}

func (l *limiter) grow(now time.Time) {
	for !now.Before(l.steepenAt) {
		l.growth *= 2
		l.steepenAt = l.steepenAt.Add(steepen)
	}
	passed := now.Sub(l.at).Seconds()
	l.at = now
	l.rate += l.growth * passed
	l.tokens = min(l.tokens+l.rate*passed, 2*l.grant())
}

// grant is how many starts are let through at once.
func (l *limiter) grant() float64 { return max(1, float64(int(l.rate/grantsPerSecond))) }

// meter counts what happened in the last second.
type meter struct {
	began        time.Time // of the second that is counted
	counted, was float64
}

func (m *meter) add(now time.Time) {
	m.roll(now)
	m.counted++
}

// rate is how many there were a second until now. Of the second before the present one it counts the part that is not over.
func (m *meter) rate(now time.Time) float64 {
	m.roll(now)
	return m.counted + m.was*(1-now.Sub(m.began).Seconds())
}

func (m *meter) roll(now time.Time) {
	switch passed := now.Sub(m.began); {
	case passed >= 2*time.Second:
		*m = meter{began: now}
	case passed >= time.Second:
		*m = meter{began: m.began.Add(time.Second), was: m.counted}
	}
}
