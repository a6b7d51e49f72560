package simpg

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pgdispatch/pgdispatch/claim/schedule"
)

// Signals of the simulated Postgres: see sql/request/signal.sql.

// The states of a signal.
const (
	signalOpen      = "OPEN"
	signalDelivered = "DELIVERED"
	signalGivenUp   = "GIVEN_UP"
)

// never is when a signal is tried that waits for a start or for another signal.
var never = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// Signal is a signal of an item's workflow.
type Signal struct {
	ID, Item int64
	State    string
	Try      int
	Next     time.Time
	Run      string // to send it to; empty if that may be any
	Doubtful bool   // in the answer to a take
}

// signalTable are the signals and the turn to take them.
type signalTable struct {
	all        []Signal       // by ID, which counts from 1
	epoch      schedule.Epoch // of the turn
	doubtfulTo int64
	lookedAt   time.Time
}

func (t signalTable) clone() signalTable {
	t.all = slices.Clone(t.all)
	return t
}

// write replaces the signals when a transaction commits. A crash may undo that.
func (s *Postgres) write(tx *Tx, next signalTable) {
	tx.commits = func() {
		was := s.signals.clone()
		next.all = append(next.all, s.signals.all[len(next.all):]...) // that were sent since
		s.signals = next
		tx.undo = func() {
			copy(s.signals.all, was.all)
			s.signals.epoch, s.signals.doubtfulTo, s.signals.lookedAt = was.epoch, was.doubtfulTo, was.lookedAt
		}
	}
}

// SendSignal sends a signal to the workflow of one of the items that have not ended, in a commit that no crash undoes.
// It returns its ID, or 0 if there is no such item.
func (s *Postgres) SendSignal() (id, item int64) {
	var open []int64
	runs := s.r.IntN(4) > 0
	for _, row := range s.rows {
		if row.status == rowDispatched && !row.over || !runs && row.status != rowEnded && !row.over {
			open = append(open, row.id)
		}
	}
	if len(open) == 0 {
		return 0, 0
	}
	id, item = int64(len(s.signals.all)+1), open[s.r.IntN(len(open))]
	s.signals.all = append(s.signals.all, Signal{ID: id, Item: item, State: signalOpen, Next: s.now})
	return id, item
}

// SettledSignal is the outcome of a try: see request.SettledSignal.
type SettledSignal struct {
	ID      int64
	Try     int
	Outcome string
	Run     string // to send it to from now on; empty means no other
	Failed  bool
}

// TakenSignals is what a take returns.
type TakenSignals struct {
	Now     []Signal
	GivenUp []int64 // items
	NextIn  *time.Duration
	Waits   bool
}

// TakeSignals is the statement signal_take.
func (s *Postgres) TakeSignals(tx *Tx, settled []SettledSignal, started []int64, most int) (t TakenSignals) {
	next := s.signals.clone()
	s.beginEpoch(tx)
	if now := cmp.Or(tx.epoch, s.epoch); next.epoch != now {
		next.epoch, next.doubtfulTo = now, int64(len(next.all))
	}
	first := func(item int64) *Signal {
		for n := range next.all {
			if one := &next.all[n]; one.Item == item && one.State == signalOpen {
				return one
			}
		}
		return nil
	}
	for _, one := range settled {
		signal := &next.all[one.ID-1]
		if signal.State != signalOpen || signal.Try != one.Try && one.Outcome != signalDelivered {
			continue
		}
		signal.State, signal.Next, signal.Run = one.Outcome, s.now, cmp.Or(one.Run, signal.Run)
		if one.Failed {
			signal.Next = s.now.Add(time.Second)
		}
		if tx.sync = tx.sync || one.Outcome == signalGivenUp; one.Outcome != signalOpen {
			started = append(started, signal.Item)
		}
	}
	for _, item := range started {
		if one := first(item); one != nil && one.Next.Equal(never) {
			one.Next = s.now
		}
	}
	if s.now.Sub(next.lookedAt) > 10*time.Second {
		next.lookedAt = s.now
		for n := range next.all {
			one := &next.all[n]
			row := s.rows[one.Item]
			waits := row.status == rowWaits || row.status == rowDoubt || row.status == rowClaimed
			if one.State == signalOpen && one.Next.Equal(never) && !waits && first(one.Item) == one {
				one.Next = s.now
			}
		}
	}
	s.takeDue(tx, &next, first, most, &t)
	for _, one := range next.all {
		if one.State != signalOpen {
			continue
		}
		in := min(one.Next.Sub(s.now), 10*time.Second)
		if t.Waits = t.Waits || one.Next.Equal(never); t.NextIn == nil || in < *t.NextIn {
			t.NextIn = &in
		}
	}
	s.write(tx, next)
	return t
}

// takeDue takes the signals that are due, the first of each item.
func (s *Postgres) takeDue(tx *Tx, next *signalTable, first func(int64) *Signal, most int,
	t *TakenSignals) {
	for n := range next.all {
		one := &next.all[n]
		if one.State != signalOpen || one.Next.After(s.now) || len(t.Now) == most {
			continue
		}
		row := s.rows[one.Item]
		doubtful := one.ID <= next.doubtfulTo
		started := row.status == rowDispatched || row.status == rowEnded && s.ended[one.Item]
		switch {
		case first(one.Item) != one && s.Lies != "signals do not wait for each other",
			row.status == rowWaits, row.status == rowDoubt, row.status == rowClaimed:
			one.Next = never
		case row.status == rowDispatched, one.Try > 0, doubtful && started:
			one.Try++
			if one.Run = cmp.Or(one.Run, next.lastRun(one)); !doubtful {
				one.Run = cmp.Or(one.Run, row.run)
			}
			one.Next, tx.sync = s.now.Add(15*time.Second), true
			taken := *one
			taken.Doubtful = doubtful
			t.Now = append(t.Now, taken)
		default:
			for k := range next.all {
				if o := &next.all[k]; o.Item == one.Item && o.State == signalOpen && o.Try == 0 {
					o.State, tx.sync = signalGivenUp, true
				}
			}
			t.GivenUp = append(t.GivenUp, one.Item)
		}
	}
}

// lastRun is the run of the signal before one.
func (t *signalTable) lastRun(one *Signal) (run string) {
	for n := range t.all[:one.ID-1] {
		if o := &t.all[n]; o.Item == one.Item {
			run = o.Run
		}
	}
	return run
}

// OpenSignals counts the signals that are not settled.
func (s *Postgres) OpenSignals() (open int) {
	for _, one := range s.signals.all {
		if one.State == signalOpen {
			open++
		}
	}
	return open
}

// Signals says what is wrong with signals that are settled, or nothing. received are those that have arrived.
func (s *Postgres) Signals(received func(id int64) bool) string {
	for _, one := range s.signals.all {
		if one.State != signalOpen && received(one.ID) != (one.State == signalDelivered) && !s.forgotten[one.Item] {
			return fmt.Sprintf("signal %d of item %d is %s, received %t", one.ID, one.Item, one.State, received(one.ID))
		}
	}
	return ""
}
