package dispatch

import "time"

const (
	// slowest is the minimum rate in starts per second of this replica. Starts at this rate detect when Temporal
	// accepts more again.
	slowest = 1
	// cutInterval is the minimum time between two cuts of the rate, so that a cut takes effect before the next.
	cutInterval = time.Second
	// regrowth is how long the rate takes to return to its value before it was halved. steepen is the time without
	// refusals after which growth doubles: a lifted limit stops slowing starts within a minute or two.
	regrowth = 5 * time.Second
	steepen  = 10 * time.Second
	// freeAfter is how long nothing must have been held back before the limiter is removed.
	freeAfter = 5 * time.Second
	// grantsPerSecond is the maximum number of grants per second. At a high rate a grant is several starts.
	grantsPerSecond = 50
)

// limiter adapts the rate of starts, not their concurrency, to what Temporal accepts: it halves the rate when Temporal
// reports that it is too high, and then raises it by growth every second. Temporal refuses any replica once the
// namespace's limit is used up, so the sum of the replicas' rates converges.
//
// It is not safe for concurrent use: only the claim loop uses it.
type limiter struct {
	rate   float64 // starts per second; zero means no limit
	growth float64 // increase of the rate per second
	tokens float64 // starts allowed now
	at     time.Time
	cutAt  time.Time
	// steepenAt is when growth doubles next.
	steepenAt time.Time
	heldAt    time.Time // when something was last held back
	short     bool      // fewer were allowed than requested
	until     time.Time // when more starts are allowed; zero if nothing is held back

	answered, taken meter
}

func (l *limiter) limits() bool { return l.rate > 0 }

// exceeds reports whether so many refusals of different items within a second show that the rate is too high.
func (l *limiter) exceeds(now time.Time, refused int) bool {
	return refused >= many && float64(refused) > limitedShare*l.taken.rate(now)
}

// learn records the answer to a start that was sent at sent. It reports whether it put a limit on an unlimited replica.
func (l *limiter) learn(now, sent time.Time, refused bool) (slows bool) {
	l.answered.add(now)
	if !refused {
		l.taken.add(now)
		return false
	}
	// Starts in progress when the rate was cut say nothing about the new rate.
	if l.limits() && (sent.Before(l.cutAt) || now.Sub(l.cutAt) < cutInterval) {
		return false
	}
	slows = !l.limits()
	was := l.rate
	if slows {
		was = l.answered.rate(now)
	}
	// Cut below half if far fewer were accepted, so that a rate that is far too high falls in one step.
	l.rate = max(slowest, min(was/2, l.taken.rate(now)))
	l.growth = l.rate / regrowth.Seconds()
	l.tokens, l.at, l.cutAt, l.heldAt, l.steepenAt = 0, now, now, now, now.Add(steepen)
	return slows
}

// allows returns how many of the wanted items may be claimed now, so that they can be started at once.
func (l *limiter) allows(now time.Time, wanted int, expectsWork bool) int {
	l.until, l.short = time.Time{}, false
	if !l.limits() || wanted == 0 {
		return wanted
	}
	l.grow(now)
	grant := min(float64(wanted), l.grant())
	if l.tokens < grant {
		// Add 1 µs, so that the wake-up is not slightly too early.
		l.until = now.Add(time.Duration((grant-l.tokens)/l.rate*float64(time.Second)) + time.Microsecond)
		if expectsWork {
			l.heldAt = now
		}
		return 0
	}
	allowed := min(wanted, int(l.tokens))
	l.short = allowed < wanted
	return allowed
}

// spend records how many of the allowed items were claimed.
func (l *limiter) spend(now time.Time, items int, all bool) {
	if l.limits() {
		l.tokens -= float64(items)
	}
	if all && l.short {
		l.heldAt = now
	}
}

// frees removes the limit if nothing was held back for a while. It reports whether it did.
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

// grant is how many starts are allowed at once.
func (l *limiter) grant() float64 { return max(1, float64(int(l.rate/grantsPerSecond))) }

// meter measures events per second over the last second.
type meter struct {
	began        time.Time // start of the second being counted
	counted, was float64
}

func (m *meter) add(now time.Time) {
	m.roll(now)
	m.counted++
}

// rate returns the events in the last second. Of the previous second it counts the share that still lies within it.
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
