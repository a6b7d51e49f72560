package sweeper

import "time"

// maxDrift is what a clock that is disciplined in small steps may deviate between two sweeps.
const maxDrift = time.Second

// clock notices jumps of the database's clock by this process's monotonic one. It is used by one goroutine.
type clock struct {
	database time.Time // zero: not read yet
	from, to time.Time // read in between
}

// read takes the database's time, which was read between sent and received, and returns by how much it has jumped since the
// last; 0: it has not. A machine that was suspended sees a jump too, if the database's was not.
func (c *clock) read(database, sent, received time.Time) (jumped time.Duration) {
	if database.IsZero() {
		return 0 // the statement failed
	}
	last := *c
	*c = clock{database, sent, received}
	if last.database.IsZero() {
		return 0
	}
	passed := database.Sub(last.database)
	if late := passed - received.Sub(last.from); late > maxDrift {
		return late
	}
	if early := passed - sent.Sub(last.to); early < -maxDrift {
		return early
	}
	return 0
}
