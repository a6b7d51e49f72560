package postgres

import "time"

// maxDrift is how much a clock that is slewed in small steps may deviate between two sweeps.
const maxDrift = time.Second

// Clock detects jumps of the database's clock by comparing it to this process's monotonic clock. Only one goroutine may
// use it. The zero value is ready to use.
type Clock struct {
	database time.Time // zero if not read yet
	from, to time.Time // database was read between these
}

// Read takes the database's time, which was read between sent and received, and returns by how much it has jumped since
// the last call. Zero means no jump. If this machine was suspended and the database's was not, that counts as a jump as
// well.
func (c *Clock) Read(database, sent, received time.Time) (jumped time.Duration) {
	if database.IsZero() {
		return 0 // the statement failed
	}
	last := *c
	*c = Clock{database, sent, received}
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
