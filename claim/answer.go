package claim

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"
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
	Standing []byte // not nil in one row, which may have no item
}

// standing is how the entries stand at a claim. See sql/functions/claim_choose.sql.
type standing struct {
	At        time.Time   `json:"at_time"`
	Took      int64       `json:"took"`     // microseconds
	Declined  bool        `json:"declined"` // nothing was done: see sql/claim/claim_line.sql
	Epoch     *uuid.UUID  `json:"epoch"`
	Paused    bool        `json:"paused"`
	Room      int         `json:"room"`
	LastToken int64       `json:"last_token"`
	Tokens    []int64     `json:"tokens"`
	Grants    []int       `json:"grants"`
	NextPlace []int       `json:"next_place"`
	NextDue   []time.Time `json:"next_due"`
	NextID    []int64     `json:"next_id"`
	// Of each entry. See sql/functions/claim_grants.sql.
	Facts  [][4]*int64 `json:"facts"`  // limit, 1 if paused, wake number, burst limit
	Counts [][2]*int64 `json:"counts"` // holders, their lowest token; nil if none was counted
	Rates  []*float64  `json:"rates"`
	Allows []*float64  `json:"allows"` // nil if there is no rate
	// Of the limit key of each entry, in its workspace and over all; nil if no entry has one. See
	// sql/functions/claim_keys.sql.
	Own    []keyStanding `json:"own"`
	Shared []keyStanding `json:"shared"`
}

// keyStanding is how many more items of a limit key may hold a slot, how many more may start now, and in how many
// seconds another may once those are used up. Nil means no limit.
type keyStanding [3]*float64

// take reads the rows of the answer to a proposal. If the answer has another shape than the rest of this file relies
// on, the error is a postgres.UnexpectedError.
func (a *claimAnswer) take(rows []claimed, p schedule.Proposal) error {
	standings := 0
	for _, row := range rows {
		if row.Standing != nil {
			standings++
			if err := json.Unmarshal(row.Standing, &a.standing); err != nil {
				return postgres.Unexpected("read standing: %w", err)
			}
		}
		switch {
		case row.ID == 0 && row.Standing != nil: // only the standing
		case row.ID == 0 || row.Token == 0 || row.Lane == nil:
			return postgres.Unexpected("an item without its ID, token or workspace")
		default:
			row.Deadline = a.deadline
			a.items, a.lanes = append(a.items, row.Item), append(a.lanes, *row.Lane)
		}
	}
	if standings != 1 {
		return postgres.Unexpected("%d standings instead of one", standings)
	}
	return a.standing.check(p.Entries)
}

// check returns an error if the standing lacks something about one of the entries.
func (st *standing) check(entries []schedule.Entry) error {
	if st.At.IsZero() {
		return postgres.Unexpected("no at_time")
	}
	rated := slices.ContainsFunc(st.Rates, func(rate *float64) bool { return rate != nil })
	keyed := slices.ContainsFunc(entries, func(e schedule.Entry) bool { return e.Key != "" })
	for _, list := range []struct {
		name     string
		length   int
		required bool
	}{
		{"grants", len(st.Grants), true}, {"facts", len(st.Facts), true}, {"rates", len(st.Rates), true},
		{"allows", len(st.Allows), rated}, {"counts", len(st.Counts), st.Counts != nil},
		{"own", len(st.Own), keyed}, {"shared", len(st.Shared), keyed},
	} {
		if list.required && list.length != len(entries) {
			return postgres.Unexpected("%s of %d of %d entries", list.name, list.length, len(entries))
		}
	}
	for n, facts := range st.Facts {
		if limit, burst := facts[0], facts[3]; limit == nil || burst == nil {
			return postgres.Unexpected("facts of entry %d without its limits", n+1)
		}
	}
	if len(st.NextDue) != len(st.NextPlace) || len(st.NextID) != len(st.NextPlace) {
		return postgres.Unexpected("%d next_place, %d next_due, %d next_id", len(st.NextPlace), len(st.NextDue),
			len(st.NextID))
	}
	for _, place := range st.NextPlace {
		if place < 1 || place > len(entries) {
			return postgres.Unexpected("next_place %d of %d entries", place, len(entries))
		}
	}
	return nil
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
		At: st.At, Paused: st.Paused, Limited: len(namespaces) > 0, Room: st.Room, Leased: st.Tokens, Last: st.LastToken,
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
	limit, paused, number, burst := st.Facts[n][0], st.Facts[n][1], st.Facts[n][2], st.Facts[n][3]
	l := schedule.Standing{
		Granted: st.Grants[n], Taken: t.ofEntry[entry{e.Lane, e.Priority, e.Key}],
		Limit: int(*limit), Most: int(*burst), Paused: postgres.OrZero(paused) == 1, Number: postgres.OrZero(number),
		Held: e.Receipt.Held + int(st.LastToken-e.Receipt.To) + ofLane, Receipt: e.Receipt, Bound: true,
		Rated: st.Rates[n] != nil,
	}
	if l.Paused {
		l.Limit, l.Most = 0, 0
	}
	if st.Counts != nil && st.Counts[n][0] != nil {
		l.Counted, l.Bound = int(*st.Counts[n][0]), false
		l.Held = l.Counted + ofLane
		l.Receipt = schedule.Receipt{Floor: st.LastToken + 1, Held: l.Counted, To: st.LastToken}
		if lowest := st.Counts[n][1]; lowest != nil {
			l.Receipt.Floor = min(*lowest, st.LastToken+1)
		}
	}
	if rate := st.Rates[n]; rate != nil {
		if left := postgres.OrZero(st.Allows[n]) - float64(ofLane); left < 1 {
			l.RetryIn = time.Duration((1-left) / *rate * float64(time.Second)) + time.Microsecond
		}
	}
	if e.Key != "" {
		l.Own = st.Own[n].after(t.ofOwn[ownKey{e.Lane, e.Key}])
		l.All = st.Shared[n].after(t.ofKey[e.Key])
	}
	return l
}

// after returns how the key stands after a claim of so many of its items.
func (k keyStanding) after(taken int) schedule.KeyStanding {
	room, starts, again := k[0], k[1], k[2]
	after := schedule.KeyStanding{Room: schedule.NoLimit}
	if room != nil {
		after.Room = max(int(*room)-taken, 0)
	}
	if starts != nil && int(*starts) <= taken {
		after.RetryIn = time.Duration(postgres.OrZero(again)*float64(time.Second)) + time.Microsecond
	}
	return after
}
