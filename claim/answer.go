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
	Mosts     []int       `json:"mosts"`
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
	// Of limit keys, in the workspace and over all; all nil if no entry has one.
	OwnRoom    []*int     `json:"own_room"`
	OwnStarts  []*int     `json:"own_starts"`
	OwnAgain   []*float64 `json:"own_again"`
	OverRoom   []*int     `json:"over_room"`
	OverStarts []*int     `json:"over_starts"`
	OverAgain  []*float64 `json:"over_again"`
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

// taken counts the items of a claim.
type taken struct {
	ofEntry  map[entry]int
	ofLane   map[schedule.Lane]int
	ofOwn    map[ownKey]int // by limit key within the workspace
	ofKey    map[string]int // by limit key over all workspaces
	repeated int            // those whose start is repeated; they are counted nowhere else
}

// entry identifies an entry of a proposal.
type entry struct {
	lane     schedule.Lane
	priority int
	key      string
}

type ownKey struct {
	lane schedule.Lane
	key  string
}

func (a *claimAnswer) taken() taken {
	t := taken{ofEntry: map[entry]int{}, ofLane: map[schedule.Lane]int{}}
	for n, item := range a.items {
		if item.OutcomeUnknown {
			t.repeated++
			continue
		}
		lane := a.lanes[n]
		t.ofEntry[entry{lane, item.Priority, item.LimitKey}]++
		t.ofLane[lane]++
		if item.LimitKey == "" {
			continue
		}
		if t.ofKey == nil {
			t.ofOwn, t.ofKey = map[ownKey]int{}, map[string]int{}
		}
		t.ofOwn[ownKey{lane, item.LimitKey}]++
		t.ofKey[item.LimitKey]++
	}
	return t
}

// schedule converts the answer to a schedule.Answer.
func (a *claimAnswer) schedule(p schedule.Proposal, namespaces map[string]int) schedule.Answer {
	st := a.standing
	t := a.taken()
	answer := schedule.Answer{
		Paused: st.Paused, Limited: len(namespaces) > 0, Room: st.Room, Leased: st.Tokens, Last: st.LastToken,
		Repeated: t.repeated,
		Lanes:    make([]schedule.Standing, len(p.Entries)),
	}
	if st.Epoch != nil {
		answer.Epoch = schedule.Epoch(*st.Epoch)
	}
	last := -1 // the last entry that yielded an item
	for n, e := range p.Entries {
		answer.Lanes[n] = st.of(n, e, t)
		if answer.Lanes[n].Taken > 0 {
			last = n
		}
	}
	closed := answer.Limited
	for _, allowed := range namespaces {
		closed = closed && allowed == 0
	}
	cut := len(a.items) >= min(p.AtMost, st.Room) || t.repeated > 0
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

// of returns how the nth entry's workspace and limit key stand after the claim.
func (st *standing) of(n int, e schedule.Entry, t taken) schedule.Standing {
	ofLane := t.ofLane[e.Lane]
	l := schedule.Standing{
		Granted: st.Grants[n], Taken: t.ofEntry[entry{e.Lane, e.Priority, e.Key}], Held: st.Holders[n] + ofLane,
		Limit: st.Limits[n], Most: st.Mosts[n], Paused: st.Pauses[n],
		Number: postgres.OrZero(st.Numbers[n]), Receipt: e.Receipt, Bound: true,
	}
	if l.Paused {
		l.Limit, l.Most = 0, 0
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
	if e.Key != "" {
		l.Own = ofKey(st.OwnRoom[n], st.OwnStarts[n], st.OwnAgain[n], t.ofOwn[ownKey{e.Lane, e.Key}])
		l.All = ofKey(st.OverRoom[n], st.OverStarts[n], st.OverAgain[n], t.ofKey[e.Key])
	}
	return l
}

// ofKey returns how a limit key stands after a claim of so many of its items. Nil means no limit. See
// sql/functions/claim_keys.sql.
func ofKey(room, starts *int, again *float64, taken int) schedule.KeyStanding {
	k := schedule.KeyStanding{Room: schedule.NoLimit}
	if room != nil {
		k.Room = max(*room-taken, 0)
	}
	if starts != nil && *starts <= taken {
		k.RetryIn = time.Duration(postgres.OrZero(again)*float64(time.Second)) + time.Microsecond
	}
	return k
}
