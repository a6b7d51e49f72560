package claim

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/pgdispatch/pgdispatch/claim/schedule"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

// claimAnswer is the result of a claim.
type claimAnswer struct {
	deadline   time.Time
	items      []Item
	workspaces []schedule.WorkspaceID // of the items
	versions   []version              // of the items
	standing   standing
}

// claimed is a row of a claim.
type claimed struct {
	Item
	VersionRevision string
	Standing        []byte // not nil in one row, which may have no item
}

// standing is how the entries stand at a claim. See sql/claim/claim.sql.
type standing struct {
	At        time.Time       `json:"at_time"`
	Took      int64           `json:"took"`     // microseconds
	Declined  bool            `json:"declined"` // nothing was done: see sql/claim/single.sql
	Epoch     *uuid.UUID      `json:"epoch"`
	Paused    bool            `json:"paused"`
	Room      int             `json:"room"`
	LastToken int64           `json:"last_token"`
	Tokens    []int64         `json:"tokens"`
	Entries   []entryStanding `json:"entries"`
	Next      []struct {      // what is left
		Entry int       `json:"entry"` // from 1
		RunAt time.Time `json:"run_at"`
		ID    int64     `json:"id"`
	} `json:"next"`
}

// entryStanding is the type claim_standing of sql/tables/003_claim_types.sql.
type entryStanding struct {
	Granted     int         `json:"granted"`
	Slots       *int        `json:"slots"`
	BurstSlots  *int        `json:"burst_slots"`
	Paused      bool        `json:"paused"`
	WakeNumber  int64       `json:"wake_number"`
	Rate        *float64    `json:"rate"`
	Allows      float64     `json:"allows"`
	Holders     *int        `json:"holders"`
	LowestToken *int64      `json:"lowest_token"`
	Own         keyStanding `json:"own"`
	Shared      keyStanding `json:"shared"`
}

// keyStanding is the type claim_key. Its zero value means no limit.
type keyStanding struct {
	Room   *int    `json:"room"`
	Starts *int    `json:"starts"`
	Again  float64 `json:"again"` // seconds
}

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
		case row.ID == 0 || row.Token == 0:
			return postgres.Unexpected("an item without its ID or token")
		default:
			workspace, err := uuid.Parse(row.WorkspaceID)
			if err != nil {
				return postgres.Unexpected("read workspace of item %d: %w", row.ID, err)
			}
			row.Deadline = a.deadline
			a.items, a.workspaces = append(a.items, row.Item), append(a.workspaces, schedule.WorkspaceID(workspace))
			a.versions = append(a.versions, version{row.WorkflowDefinitionVersionID, row.VersionRevision})
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
	if len(st.Entries) != len(entries) {
		return postgres.Unexpected("the standing of %d of %d entries", len(st.Entries), len(entries))
	}
	for n, e := range st.Entries {
		if e.Slots == nil || e.BurstSlots == nil {
			return postgres.Unexpected("the standing of entry %d without its limits", n+1)
		}
	}
	for _, next := range st.Next {
		if next.Entry < 1 || next.Entry > len(entries) {
			return postgres.Unexpected("what is left of entry %d of %d", next.Entry, len(entries))
		}
	}
	return nil
}

// taken counts the items of a claim.
type taken struct {
	ofEntry     map[entry]int
	ofWorkspace map[schedule.WorkspaceID]int
	ofOwn       map[ownKey]int // by limit key within the workspace
	ofKey       map[string]int // by limit key over all workspaces
	repeated    int            // those whose start is repeated; they are counted nowhere else
}

// entry identifies an entry of a proposal.
type entry struct {
	workspace schedule.WorkspaceID
	priority  int
	key       string
}

type ownKey struct {
	workspace schedule.WorkspaceID
	key       string
}

func (a *claimAnswer) taken() taken {
	t := taken{ofEntry: map[entry]int{}, ofWorkspace: map[schedule.WorkspaceID]int{}}
	for n, item := range a.items {
		if item.Unanswered {
			t.repeated++
			continue
		}
		workspace := a.workspaces[n]
		t.ofEntry[entry{workspace, item.Priority, item.LimitKey}]++
		t.ofWorkspace[workspace]++
		if item.LimitKey == "" {
			continue
		}
		if t.ofKey == nil {
			t.ofOwn, t.ofKey = map[ownKey]int{}, map[string]int{}
		}
		t.ofOwn[ownKey{workspace, item.LimitKey}]++
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
		Unanswered: t.repeated,
		Standings:  make([]schedule.Standing, len(p.Entries)),
	}
	if st.Epoch != nil {
		answer.Epoch = schedule.Epoch(*st.Epoch)
	}
	last := -1 // the last entry that yielded an item
	for n, e := range p.Entries {
		answer.Standings[n] = st.of(n, e, t)
		if answer.Standings[n].Taken > 0 {
			last = n
		}
	}
	closed := answer.Limited
	for _, allowed := range namespaces {
		closed = closed && allowed == 0
	}
	cut := len(a.items) >= min(p.AtMost, st.Room) || t.repeated > 0
	for _, left := range st.Next {
		l := &answer.Standings[left.Entry-1]
		next := schedule.Position{Due: left.RunAt, ID: left.ID}
		if l.Next == nil || next.Before(*l.Next) {
			l.Next = &next
		}
		l.PassedOver = closed && l.Taken == 0 && l.Granted > 0 && !(cut && left.Entry > last) && !l.Next.Due.After(st.At)
	}
	return answer
}

// of returns how the nth entry's workspace and limit key stand after the claim.
func (st *standing) of(n int, e schedule.Entry, t taken) schedule.Standing {
	found, ofWorkspace := st.Entries[n], t.ofWorkspace[e.Workspace]
	l := schedule.Standing{
		Granted: found.Granted, Taken: t.ofEntry[entry{e.Workspace, e.Priority, e.Key}],
		Limit: *found.Slots, BurstLimit: *found.BurstSlots, Paused: found.Paused, Number: found.WakeNumber,
		Held: e.Receipt.Held + int(st.LastToken-e.Receipt.To) + ofWorkspace, Receipt: e.Receipt, Bound: true,
		Rated: found.Rate != nil,
	}
	if l.Paused {
		l.Limit, l.BurstLimit = 0, 0
	}
	if found.Holders != nil {
		l.Counted, l.Bound = *found.Holders, false
		l.Held = l.Counted + ofWorkspace
		l.Receipt = schedule.Receipt{Floor: st.LastToken + 1, Held: l.Counted, To: st.LastToken}
		if lowest := found.LowestToken; lowest != nil {
			l.Receipt.Floor = min(*lowest, st.LastToken+1)
		}
	}
	if rate := found.Rate; rate != nil {
		if left := found.Allows - float64(ofWorkspace); left < 1 {
			l.RetryIn = time.Duration((1-left) / *rate * float64(time.Second)) + time.Microsecond
		}
	}
	if e.Key != "" {
		l.Own = found.Own.after(t.ofOwn[ownKey{e.Workspace, e.Key}])
		l.All = found.Shared.after(t.ofKey[e.Key])
	}
	return l
}

// after returns how the key stands after a claim of so many of its items.
func (k keyStanding) after(taken int) schedule.KeyStanding {
	after := schedule.KeyStanding{Room: schedule.NoLimit}
	if k.Room != nil {
		after.Room = max(*k.Room-taken, 0)
	}
	if k.Starts != nil && *k.Starts <= taken {
		after.RetryIn = time.Duration(k.Again*float64(time.Second)) + time.Microsecond
	}
	return after
}

// startable sets the items' Startable. An unanswered start holds its slot, so it has been startable since it was due.
func (a *claimAnswer) startable(p schedule.Proposal) {
	type key struct {
		workspace schedule.WorkspaceID
		priority  int
	}
	from := map[key]time.Time{}
	for _, e := range p.Entries {
		from[key{e.Workspace, e.Priority}] = e.Startable
	}
	for n := range a.items {
		item := &a.items[n]
		item.Startable = item.Waited
		if since := from[key{a.workspaces[n], item.Priority}]; !since.IsZero() && !item.Unanswered {
			item.Startable = min(item.Waited, max(a.standing.At.Sub(since), 0))
		}
	}
}
