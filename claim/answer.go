package claim

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/pgdispatch/pgdispatch/claim/schedule"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

// claimAnswer is the result of a claim.
type claimAnswer struct {
	deadline time.Time
	items    []Item
	lanes    []schedule.Lane // of the items
	standing standing
}

// claimed is a row of a claim.
type claimed struct {
	Item
	Lane     *schedule.Lane
	Standing []byte // not nil in the last row, which has no item
}

// standing is the last row of a claim. See sql/functions/claim_choose.sql.
type standing struct {
	At        time.Time   `json:"at_time"`
	Took      int64       `json:"took"` // microseconds
	Epoch     *uuid.UUID  `json:"epoch"`
	Paused    bool        `json:"paused"`
	Room      int         `json:"room"`
	LastToken int64       `json:"last_token"`
	Tokens    []int64     `json:"tokens"`
	Grants    []int       `json:"grants"`
	Limits    []int       `json:"limits"`
	Holders   []int       `json:"holders"`
	Counted   []*int      `json:"counted"`
	Lowest    []*int64    `json:"lowest"`
	Pauses    []bool      `json:"pauses"`
	Rates     []*float64  `json:"rates"`
	Allows    []*float64  `json:"allows"`
	Numbers   []*int64    `json:"numbers"`
	NextPlace []int       `json:"next_place"`
	NextDue   []time.Time `json:"next_due"`
	NextID    []int64     `json:"next_id"`
}

func (a *claimAnswer) read(rows pgx.Rows) error {
	all, err := pgx.CollectRows(rows, pgx.RowToStructByName[claimed])
	for _, row := range all {
		if row.Standing != nil {
			if err := json.Unmarshal(row.Standing, &a.standing); err != nil {
				return fmt.Errorf("read lane states: %w", err)
			}
			continue
		}
		row.Deadline = a.deadline
		a.items, a.lanes = append(a.items, row.Item), append(a.lanes, *row.Lane)
	}
	return err
}

// laneAndPriority is a priority level of a workspace.
type laneAndPriority struct {
	lane     schedule.Lane
	priority int
}

// taken counts the items by level and by workspace, and those whose start is repeated.
func (a *claimAnswer) taken() (ofLevel map[laneAndPriority]int, ofLane map[schedule.Lane]int, repeated int) {
	ofLevel, ofLane = map[laneAndPriority]int{}, map[schedule.Lane]int{}
	for n, item := range a.items {
		if item.OutcomeUnknown {
			repeated++
			continue
		}
		ofLevel[laneAndPriority{a.lanes[n], item.Priority}]++
		ofLane[a.lanes[n]]++
	}
	return ofLevel, ofLane, repeated
}

// schedule converts the answer to a schedule.Answer.
func (a *claimAnswer) schedule(p schedule.Proposal, namespaces map[string]int) schedule.Answer {
	st := a.standing
	ofLevel, ofLane, repeated := a.taken()
	answer := schedule.Answer{
		Paused: st.Paused, Limited: len(namespaces) > 0, Room: st.Room, Leased: st.Tokens, Last: st.LastToken,
		Repeated: repeated,
		Lanes:    make([]schedule.Standing, len(p.Entries)),
	}
	if st.Epoch != nil {
		answer.Epoch = schedule.Epoch(*st.Epoch)
	}
	last := -1 // the last entry that yielded an item
	for n, e := range p.Entries {
		answer.Lanes[n] = st.of(n, e, ofLevel[laneAndPriority{e.Lane, e.Priority}], ofLane[e.Lane])
		if answer.Lanes[n].Taken > 0 {
			last = n
		}
	}
	closed := answer.Limited
	for _, allowed := range namespaces {
		closed = closed && allowed == 0
	}
	cut := len(a.items) >= min(p.AtMost, st.Room) || repeated > 0
	for n, place := range st.NextPlace {
		l := &answer.Lanes[place-1]
		next := schedule.Position{Due: st.NextDue[n], ID: st.NextID[n]}
		if l.Next == nil || next.Before(*l.Next) {
			l.Next = &next
		}
		l.PassedOver = closed && l.Taken == 0 && st.Grants[place-1] > 0 && !(cut && place > last) && !l.Next.Due.After(st.At)
	}
	return answer
}

// of returns how the nth entry's workspace stands, after taken of its items at this level and ofLane of all were
// claimed.
func (st *standing) of(n int, e schedule.Entry, taken, ofLane int) schedule.Standing {
	l := schedule.Standing{
		Granted: st.Grants[n], Taken: taken, Held: st.Holders[n] + ofLane, Limit: st.Limits[n], Paused: st.Pauses[n],
		Number: postgres.OrZero(st.Numbers[n]), Receipt: e.Receipt, Bound: true,
	}
	if l.Paused {
		l.Limit = 0
	}
	if counted := st.Counted[n]; counted != nil {
		l.Counted, l.Bound = *counted, false
		l.Receipt = schedule.Receipt{Floor: st.LastToken + 1, Held: *counted, To: st.LastToken}
		if lowest := st.Lowest[n]; lowest != nil {
			l.Receipt.Floor = min(*lowest, st.LastToken+1)
		}
	}
	if rate := st.Rates[n]; rate != nil {
		if left := postgres.OrZero(st.Allows[n]) - float64(ofLane); left < 1 {
			l.RetryIn = time.Duration((1-left) / *rate * float64(time.Second)) + time.Microsecond
		}
	}
	return l
}
