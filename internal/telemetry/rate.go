package telemetry

import "time"

const (
	// rateSeconds is how far back starts are counted, and recentSeconds how far if there were enoughStarts in that time.
	rateSeconds   = 60
	recentSeconds = 10
	// enoughStarts is how many starts make the rate of recentSeconds meaningful.
	enoughStarts = 10
)

// rate counts starts by the second, for a minute.
type rate struct {
	began  time.Time // nothing was counted before
	counts [rateSeconds]int64
	newest int64 // the second, since began, of the newest count
}

// add counts a start.
func (r *rate) add(now time.Time) {
	r.forget(now)
	r.counts[r.newest%rateSeconds]++
}

// forget clears the seconds that have passed.
func (r *rate) forget(now time.Time) {
	second := int64(now.Sub(r.began) / time.Second)
	for ; r.newest < second; r.newest++ {
		if second-r.newest > rateSeconds {
			r.newest = second - rateSeconds
		}
		r.counts[(r.newest+1)%rateSeconds] = 0
	}
}

// perSecond returns the rate over the last ten seconds or, if there were few starts in them, over the last minute.
func (r *rate) perSecond(now time.Time) float64 {
	r.forget(now)
	passed := now.Sub(r.began).Seconds()
	var recent, all int64
	for back := range int64(rateSeconds) {
		if back > r.newest {
			break
		}
		count := r.counts[(r.newest-back)%rateSeconds]
		if all += count; back < recentSeconds {
			recent += count
		}
	}
	if recent < enoughStarts {
		return float64(all) / max(min(passed, rateSeconds), 1)
	}
	return float64(recent) / max(min(passed, recentSeconds), 1)
}
