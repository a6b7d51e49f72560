package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/pgdispatch/pgdispatch/sql"
)

// MaxPriority is the highest priority of an item, and -MaxPriority the lowest.
const MaxPriority = 100

// itemsLooked is the number of items that a list looks at for one page. The page shows whether it was reached.
const itemsLooked = 10_000

// Item is the current state of an item and its execution.
type Item struct {
	ID                   int64           `json:"id"`
	ExecutionID          string          `json:"execution_id"`
	WorkflowID           string          `json:"workflow_id"` // in Temporal, even if it has not been started
	Status               string          `json:"status"`
	WorkspaceID          string          `json:"workspace_id"`
	Workspace            string          `json:"workspace"` // its name; empty if it was deleted
	WorkflowDefinitionID string          `json:"workflow_definition_id"`
	WorkflowDefinition   string          `json:"workflow_definition"` // its name; empty if it was deleted
	Priority             int             `json:"priority"`
	RunAt                time.Time       `json:"run_at"`
	DueIn                time.Duration   `json:"-"`                      // by the database's clock; zero if it is due
	StartBefore          *time.Time      `json:"start_before,omitempty"` // nil means any time
	Params               json.RawMessage `json:"params,omitempty"`       // nil if not requested
	IdempotencyKey       string          `json:"idempotency_key,omitempty"`
	LimitKey             string          `json:"limit_key,omitempty"`
	EnqueueKey           string          `json:"enqueue_key,omitempty"` // of pgdispatch.enqueue, while it holds it
	Traceparent          string          `json:"traceparent,omitempty"`
	AttemptCount         int             `json:"attempt_count"`
	FailureCount         int             `json:"failure_count"`
	MaxAttempts          *int            `json:"max_attempts"` // nil if its definition was deleted
	LostLeaseCount       int             `json:"lost_lease_count"`
	LastError            string          `json:"last_error"`
	// Unanswered reports whether the item keeps its slot while it waits for another try: a start request got no response,
	// so that the workflow may be running, or its starts fail while others start.
	Unanswered bool `json:"outcome_unknown" db:"outcome_unknown"`
	// Uncertain reports whether it keeps its slot because its lease expired: its replica was lost, or never got the answer
	// to its claim. Unlike an unanswered start, its start may never have been sent.
	Uncertain bool `json:"uncertain"`
	// Tries is how many starts failed while others of the namespace started, and FailingSince since when. GivenUpBy is the
	// person who gave the item up; it ends once a replica has looked it up.
	Tries               int             `json:"tries,omitempty"`
	FailingSince        *time.Time      `json:"failing_since,omitempty"`
	GivenUpBy           string          `json:"given_up_by,omitempty"`
	MissingSince        *time.Time      `json:"missing_since,omitempty"` // since when Temporal does not find its workflow
	CreatedAt           time.Time       `json:"created_at"`
	Age                 time.Duration   `json:"-"` // by the database's clock
	ClaimedBy           string          `json:"claimed_by,omitempty"`
	ClaimedAt           *time.Time      `json:"claimed_at"`
	LeaseExpiresAt      *time.Time      `json:"lease_expires_at"`
	LeaseIsOver         bool            `json:"-"`
	DispatchedAt        *time.Time      `json:"dispatched_at"`
	FinishedAt          *time.Time      `json:"finished_at"`
	ReplayOf            *int64          `json:"replay_of"`                  // the dead letter that this item replays
	ExecutionStatus     string          `json:"execution_status,omitempty"` // empty if there is no execution yet
	RunID               string          `json:"run_id,omitempty"`           // empty if no workflow was started
	Namespace           string          `json:"namespace,omitempty"`        // of the workflow
	Kind                temporal.Kind   `json:"kind"`                       // of what it starts
	Watcher             string          `json:"watcher,omitempty"`          // the replica that watches it for its end
	VersionID           string          `json:"workflow_definition_version_id,omitempty"`
	Version             *int            `json:"version"`
	PreparedAt          *time.Time      `json:"prepared_at"` // when its execution was created, at its first claim
	StartedAt           *time.Time      `json:"started_at"`
	ExecutionFinishedAt *time.Time      `json:"execution_finished_at"`
	ExecutionError      string          `json:"execution_error,omitempty"`
	Result              json.RawMessage `json:"result,omitempty"`      // nil if none is stored or it was not requested
	ResultNote          string          `json:"result_note,omitempty"` // why an existing result is not stored
	Stop                string          `json:"stop,omitempty"`        // CANCEL or TERMINATE if a stop was requested
	StopState           string          `json:"stop_state,omitempty"`  // OPEN, SENT, WITHDRAWN or ENDED
	StopRequestedAt     *time.Time      `json:"stop_requested_at,omitempty"`
	StopRequestedBy     string          `json:"stop_requested_by,omitempty"`
	StopReason          string          `json:"stop_reason,omitempty"`
	StopError           string          `json:"stop_error,omitempty"` // Temporal's error at the last try
	// State is that of a dead letter: OPEN, REPLAYED or DISCARDED. Otherwise it is empty. A dead letter is OPEN again if
	// its replay was withdrawn, although Mark is REPLAYED.
	State             string     `json:"state,omitempty"`
	Mark              string     `json:"mark,omitempty"` // of a dead letter: REPLAYED, DISCARDED or empty
	MarkedAt          *time.Time `json:"marked_at"`
	MarkedBy          string     `json:"marked_by,omitempty"`
	ReplayID          *int64     `json:"replay_id"` // the item that replays this one
	ReplayExecutionID string     `json:"replay_execution_id,omitempty"`
	ReplayStatus      string     `json:"replay_status,omitempty"`
}

// EndedAgo returns how long ago the item ended, by the database's clock. It is zero if it has not.
func (i Item) EndedAgo() time.Duration {
	if i.FinishedAt == nil {
		return 0
	}
	return i.CreatedAt.Add(i.Age).Sub(*i.FinishedAt)
}

// Filter selects items or dead letters. The zero value selects all.
type Filter struct {
	Workspace  string // ID or name; empty means any; a name selects all workspaces with that name
	Definition string // ID or name; empty means any
	Error      string // a part of last_error, ignoring case; empty means any
	Since      Moment // enqueued at or after, of dead letters failed
	Until      Moment // enqueued at or before, of dead letters failed
}

// ItemFilter selects items. The zero value selects all.
type ItemFilter struct {
	Filter
	States []string // such as PENDING; nil means any
	Before int64    // only items with a lower ID; zero means any
	// The others are for ListItems only.
	Priority *int     // nil means any
	Key      string   // the limit key; empty means any
	Field    []string // the path of a field of params that is Value, as text; nil means any
	Value    string
	// WaitsAgain selects only items that failed and wait for their next attempt.
	WaitsAgain bool
	// Keeps selects only items that keep their slot while they wait for another try.
	Keeps bool
	// Missing selects only items whose workflow Temporal does not find.
	Missing bool
}

// FindItems returns the IDs of up to atMost items, the newest first. If atMost is zero, it returns all.
func (s *Store) FindItems(ctx context.Context, f ItemFilter, atMost int) ([]int64, error) {
	return postgres.ValuesWithin[int64](ctx, findTimeout, s.DB, "find items", sql.Text("item_find"),
		f.States, postgres.OrNull(f.Workspace), postgres.OrNull(f.Definition), postgres.OrNull(f.Error),
		f.Since.At, f.Since.Ago, f.Until.At, f.Until.Ago, postgres.OrNull(f.Before), postgres.OrNull(atMost), f.WaitsAgain,
		f.Keeps, f.Missing)
}

// Items returns items by item ID, in that order, and by execution ID. Unknown IDs are omitted.
func (s *Store) Items(ctx context.Context, items []int64, executions []string, withParams bool) ([]Item, error) {
	found, err := postgres.Read[Item](ctx, s.DB, "read items", sql.Text("item_read"), items, executions, withParams,
		s.Scope)
	places := make(map[int64]int, len(items))
	for place, id := range items {
		places[id] = place
	}
	slices.SortStableFunc(found, func(a, b Item) int { return places[a.ID] - places[b.ID] })
	return found, err
}

// ParseRef returns what a reference to an item names: its ID, or the ID of its execution, which "execution-" may
// precede. Both are zero if it can only be a workflow ID that the item names.
func ParseRef(ref string) (item int64, execution string) {
	if id, err := strconv.ParseInt(ref, 10, 64); err == nil {
		return id, ""
	}
	if id := strings.ToLower(temporal.TrimID(ref)); IsUUID(id) {
		return 0, id
	}
	return 0, ""
}

// ItemsNamed returns the items of each reference, the newest first. A workflow ID that items name stands for those that
// have not ended: an index of all others would slow down each insert.
func (s *Store) ItemsNamed(ctx context.Context, refs []string, withParams bool) (map[string][]Item, error) {
	ids, executions, workflows := []int64{}, []string{}, []string{}
	for _, ref := range refs {
		switch id, execution := ParseRef(ref); {
		case id != 0:
			ids = append(ids, id)
		case execution != "":
			executions = append(executions, execution)
		case utf8.ValidString(ref) && !strings.Contains(ref, "\x00"): // others cannot exist
			workflows = append(workflows, ref)
		}
	}
	if len(workflows) > 0 {
		open, err := postgres.Values[int64](ctx, s.DB, "find workflow IDs", sql.Text("item_named"), workflows, s.Scope)
		if err != nil {
			return nil, err
		}
		ids = append(ids, open...)
	}
	items, err := s.Items(ctx, ids, executions, withParams)
	named := map[string][]Item{}
	for _, ref := range refs {
		id, execution := ParseRef(ref)
		for _, i := range items {
			if i.ID == id || i.ExecutionID == execution || id == 0 && execution == "" && i.WorkflowID == ref {
				named[ref] = append(named[ref], i)
			}
		}
	}
	return named, err
}

// ItemPage is a page of items, the newest first.
type ItemPage struct {
	Items []Item
	// Next is the ItemFilter.Before of the next page. Zero if there is none.
	Next int64
	// Looked is the number of items that were looked at. Bounded reports whether there may be more that were not.
	Looked  int64
	Bounded bool
}

// ListItems returns a page of up to atMost items. A definition's ID or name selects those of definitions that have it.
// It looks at a bounded number of items, by the index with the fewest candidates. If few of them match, the page may be
// short although Next is set.
func (s *Store) ListItems(ctx context.Context, f ItemFilter, status string, workspaces []string,
	definition string, atMost int) (ItemPage, error) {
	before := f.Before
	if before == 0 {
		before = math.MaxInt64
	}
	type found struct {
		ID     *int64
		Looked int64
		Lowest *int64
	}
	rows, err := postgres.Read[found](ctx, s.DB, "list items", sql.Text("view_items"),
		postgres.OrNull(status), s.scoped(workspaces), postgres.OrNull(definition), postgres.OrNull(f.Error),
		f.Since.At, f.Since.Ago, f.Until.At, f.Until.Ago, before, atMost, itemsLooked, f.Priority, postgres.OrNull(f.Key),
		f.Field, f.Value)
	if err != nil || len(rows) == 0 {
		return ItemPage{}, err
	}
	page := ItemPage{Looked: rows[0].Looked, Bounded: rows[0].Looked >= itemsLooked}
	ids := []int64{}
	for _, row := range rows {
		if row.ID != nil {
			ids = append(ids, *row.ID)
		}
	}
	byID := status == "" || status == "COMPLETED" || status == "CANCELLED"
	switch {
	case len(ids) == atMost:
		page.Next = ids[atMost-1]
	case byID && page.Bounded:
		page.Next = *rows[0].Lowest // no more matches among these; older items were not looked at
	}
	page.Items, err = s.Items(ctx, ids, nil, false)
	return page, err
}

// EndedCount is how many items have ended with a status.
type EndedCount struct {
	Status string
	// Items is the number of those found. Exact reports whether there are no others.
	Items int64
	Exact bool
	// About is the number by Postgres' statistics. Nil if they do not have the status, or do not apply.
	About *int64
}

// EndedItems counts the ended items of the workspaces, or of all in scope if workspaces is nil, by status. The cost
// does not grow with the number of items: it counts up to 10,000 failures, or the newest 1,000 for some workspaces,
// and the others if there are fewer than 10,000 items. Postgres' statistics are of all workspaces, so those of some
// have no About.
func (s *Store) EndedItems(ctx context.Context, workspaces []string) ([]EndedCount, error) {
	return postgres.Read[EndedCount](ctx, s.DB, "count ended items", sql.Text("view_ended"),
		s.scoped(workspaces), depthLimit, CountLimit)
}

// Ahead returns how many due items of a waiting item's workspace are claimed before it, at least up to CountLimit.
func (s *Store) Ahead(ctx context.Context, item int64) (int64, error) {
	return postgres.Value[int64](ctx, s.DB, "count the items ahead", sql.Text("item_ahead"), item, CountLimit, s.Scope)
}

// mostNodes is how many nodes of an item are read.
const mostNodes = 100

// changesOfItems is how many changes of items are searched for those of one item.
const changesOfItems = 500

// ChangesOf returns what was done to an item, the newest first, from the log of changes: requests to stop its
// execution, and of the newest changes of items those that name it.
func (s *Store) ChangesOf(ctx context.Context, item int64) ([]Administered, error) {
	found, err := s.Items(ctx, []int64{item}, nil, false)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	whole := &Store{DB: s.DB} // the log has changes of items of several workspaces, of which ofItem leaves one
	stops, err := whole.Audit(ctx, AuditFilter{Subject: "execution " + found[0].ExecutionID}, changesOfItems)
	if err != nil {
		return nil, err
	}
	all, err := whole.Audit(ctx, AuditFilter{Subject: "items"}, changesOfItems)
	if err != nil {
		return nil, err
	}
	return ofItem(stops, all, found[0]), nil
}

// ofItem returns stops and those of all that name the item, the newest first. Others that a change names are left out
// of its details.
func ofItem(stops, all []Administered, item Item) []Administered {
	found := slices.Clone(stops)
	for _, change := range all {
		var named struct {
			Items, Replays []int64
			Execution      string
		}
		if json.Unmarshal(change.Details, &named) != nil {
			continue
		}
		shown := map[string]any{}
		for n, id := range named.Items {
			if id == item.ID && n < len(named.Replays) {
				shown["replays"] = named.Replays[n : n+1]
			}
		}
		replay := slices.Contains(named.Replays, item.ID)
		if !slices.Contains(named.Items, item.ID) && named.Execution != item.ExecutionID && !replay {
			continue
		}
		if named.Execution == item.ExecutionID {
			shown["replays"] = named.Replays
		}
		change.Details, _ = json.Marshal(shown) // numbers only
		found = append(found, change)
	}
	slices.SortFunc(found, func(a, b Administered) int { return cmp.Compare(b.ID, a.ID) })
	return found
}

// Failure is a failure that was counted against an item.
type Failure struct {
	Failure  int       `json:"failure"` // 1 is the first
	Attempt  int       `json:"attempt"`
	FailedAt time.Time `json:"failed_at"`
	Error    string    `json:"error"`
	Replica  string    `json:"replica,omitempty"`
}

// Failures returns the failures that were counted against an item, the first failure first.
func (s *Store) Failures(ctx context.Context, item int64) ([]Failure, error) {
	return postgres.Read[Failure](ctx, s.DB, "read failures", sql.Text("dead_history"), item, s.Scope)
}

// Nodes returns the IDs of the nodes with which an item was started or, before its start, would be.
func (s *Store) Nodes(ctx context.Context, item int64) ([]string, error) {
	return postgres.Values[string](ctx, s.DB, "read nodes", sql.Text("item_nodes"), item, mostNodes, s.Scope)
}

// CancelItems cancels the given items that are PENDING and returns their IDs. It skips items with Unanswered, whose
// workflow may be running.
func (s *Store) CancelItems(ctx context.Context, items []int64, who string) ([]int64, error) {
	return postgres.Values[int64](ctx, s.DB, "cancel items", sql.Text("item_cancel"), items, who, s.Scope)
}

// GiveUpItems makes a replica look up the given items instead of trying to start them again. An item whose workflow
// Temporal does not have then fails. It returns the IDs of those that keep their slot while they wait for another try;
// others are left as they are.
func (s *Store) GiveUpItems(ctx context.Context, items []int64, who string) ([]int64, error) {
	return postgres.Values[int64](ctx, s.DB, "give items up", sql.Text("item_give_up"), items, who, s.Scope)
}

// GiveUpExecutions says of the given items, whose workflows Temporal does not find, that these are gone. A replica then
// ends them. It returns the IDs of those that it knows as missing.
func (s *Store) GiveUpExecutions(ctx context.Context, items []int64, who string) ([]int64, error) {
	return postgres.Values[int64](ctx, s.DB, "give executions up", sql.Text("execution_give_up"), items, who, s.Scope)
}

// RetryItems makes the given items that are PENDING due now, even if they are parked, and returns their IDs.
func (s *Store) RetryItems(ctx context.Context, items []int64, who string) ([]int64, error) {
	return postgres.Values[int64](ctx, s.DB, "retry items", sql.Text("item_retry"), items, who, s.Scope)
}

// PurgeItems deletes the given items that have ended, with their executions and history, and returns their IDs. It
// needs the owner's role.
func (s *Store) PurgeItems(ctx context.Context, items []int64, who string) ([]int64, error) {
	return postgres.Values[int64](ctx, s.DB, "purge items", sql.Text("item_purge"), items, who)
}
