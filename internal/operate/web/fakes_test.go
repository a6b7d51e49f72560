package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

func (f *fakeReader) DeadOfKind(_ context.Context, kind string, _ []string, after *operate.DeadKey,
	atMost int) ([]int64, error) {
	f.kind, f.deadFilter.After = kind, after
	return f.letters[:min(len(f.letters), atMost)], f.err
}

func (f *fakeReader) SearchDeadLetters(_ context.Context, filter operate.DeadFilter, newest, atMost int) ([]int64,
	*operate.DeadKey, error) {
	f.deadFilter, f.newest = filter, newest
	return f.letters[:min(len(f.letters), atMost)], f.horizon, f.err
}

func (f *fakeReader) WorkspaceDetail(_ context.Context, asked string) (operate.WorkspaceDetail, bool, error) {
	limit, rate := 7, 2.5
	return operate.WorkspaceDetail{Workspace: operate.Workspace{ID: asked, Name: hostile, Plan: "FREE", Limit: 7,
			Unanswered: 7, MaxConcurrentWorkflows: &limit, MaxStartsPerSecond: &rate}},
		asked == id, f.err
}

func (f *fakeReader) WorkspacesOf(_ context.Context, ids []string) ([]operate.WorkspaceRow, error) {
	return []operate.WorkspaceRow{{ID: ids[0], Name: hostile, Limit: 1, Running: 1}}, f.err
}

func (f *fakeReader) Nodes(context.Context, int64) ([]string, error) {
	return []string{"charge", hostile}, f.err
}

func (f *fakeReader) Definitions(_ context.Context, _ string, atMost int) ([]operate.Definition, error) {
	if f.rows >= atMost {
		return make([]operate.Definition, atMost), f.err
	}
	return []operate.Definition{{ID: id, Name: hostile, WorkflowType: hostile, Namespace: hostile, TaskQueue: hostile}},
		f.err
}

func (f *fakeReader) CompleteDefinitions(_ context.Context, _, beginning string, _ int) ([]string, error) {
	return []string{beginning + hostile}, f.err
}

func (f *fakeReader) Plans(context.Context) ([]operate.Plan, error) {
	return []operate.Plan{{Name: "FREE", MaxConcurrentWorkflows: 1}, {Name: "PRO", MaxConcurrentWorkflows: 5}}, f.err
}

func (f *fakeReader) Settings(context.Context) (operate.Settings, error) {
	return operate.Settings{MaxClaims: 100, Paused: f.paused}, f.err
}

func (f *fakeReader) Audit(_ context.Context, filter operate.AuditFilter, _ int) ([]operate.Administered, error) {
	f.subject = filter.Subject
	name, _ := json.Marshal(hostile)
	return []operate.Administered{
		{At: time.Unix(1, 0), Who: hostile, Action: hostile, Details: fmt.Appendf(nil, `{"name": [null, %s]}`, name)}}, f.err
}

// fakeChanger records changes and their authors, one line per call.
type fakeChanger struct {
	calls   []string
	err     error
	failsAt int  // number of the call that fails, from 1; 0: all, if err is set
	late    bool // the state has changed since the page was made
	long    bool // calls are recorded without their items
}

func (f *fakeChanger) call(format string, args ...any) error {
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
	if f.failsAt == 0 || f.failsAt == len(f.calls) {
		return f.err
	}
	return nil
}

func (f *fakeChanger) ChangeWorkspace(_ context.Context, _ string, patch operate.Patch, command,
	who string) (operate.Change, error) {
	asked, _ := json.Marshal(patch)
	err := f.call("%s by %s: %s", command, who, asked)
	if f.late {
		return nil, err
	}
	return operate.Change{"plan": {1, 2}}, err
}

func (f *fakeChanger) ChangeSettings(_ context.Context, patch operate.Patch, who string) (operate.SettingsChange,
	error) {
	asked, _ := json.Marshal(patch)
	return operate.SettingsChange{}, f.call("settings set by %s: %s", who, asked)
}

func (f *fakeChanger) items(verb string, items []int64, who string) ([]int64, error) {
	err := f.call("%s %v by %s", verb, items, who)
	if f.long {
		f.calls[len(f.calls)-1] = fmt.Sprintf("%s %d by %s", verb, len(items), who)
	}
	if f.late || err != nil {
		items = nil
	}
	return items, err
}

func (f *fakeChanger) CancelItems(_ context.Context, items []int64, who string) ([]int64, error) {
	return f.items("cancel", items, who)
}

func (f *fakeChanger) RetryItems(_ context.Context, items []int64, who string) ([]int64, error) {
	return f.items("retry", items, who)
}

func (f *fakeChanger) GiveUpItems(_ context.Context, items []int64, who string) ([]int64, error) {
	return f.items("give up waiting", items, who)
}

func (f *fakeChanger) GiveUpExecutions(_ context.Context, items []int64, who string) ([]int64, error) {
	_, err := f.items("give up missing", items, who)
	return nil, err
}

func (f *fakeChanger) RequestStop(_ context.Context, stop temporal.Stop) (string, error) {
	answer := "REQUESTED"
	if f.late {
		answer = "ALREADY_ENDED"
	}
	return answer, f.call("%s %q by %s", stop.How, stop.Reason, stop.RequestedBy)
}

func (f *fakeChanger) Replay(_ context.Context, _, who string) (operate.Replay, error) {
	return operate.Replay{ID: 9, Replayed: !f.late}, f.call("replay by %s", who)
}

func (f *fakeChanger) ReplayAll(_ context.Context, items []int64, who string) ([]operate.Replayed, error) {
	done, err := f.items("replay", items, who)
	return make([]operate.Replayed, len(done)), err
}

func (f *fakeChanger) Discard(_ context.Context, items []int64, who string) ([]int64, error) {
	return f.items("discard", items, who)
}

func (f *fakeChanger) SendSignal(_ context.Context, execution, name, payload, who string) (int64, error) {
	return 1, f.call("signal %s %q %s by %s", execution[:4], name, payload, who)
}

func (f *fakeChanger) ResendSignal(_ context.Context, signal int64, execution,
	who string) (operate.Resent, bool, error) {
	return operate.Resent{}, !f.late, f.call("resend %d of %s by %s", signal, execution[:4], who)
}

var (
	errForbidden = fmt.Errorf("change: %w",
		&pgconn.PgError{Code: "42501", Message: "permission denied for table workspaces"})
	errAway = errors.New("password of user bob")
)

// fakeReader answers with one row of each kind, all with hostile texts, and records its requests.
type fakeReader struct {
	err                          error
	empty                        bool
	filter                       operate.ItemFilter
	status                       string
	definition                   string
	workspaces                   []string
	after                        *operate.WorkspaceKey
	looks, lists, rows, listings int
	item                         *operate.Item // item 8; nil: a dead letter
	status8                      string        // its status; "": FAILED
	letters                      []int64
	deadFilter                   operate.DeadFilter
	newest                       int              // failures searched
	horizon                      *operate.DeadKey // where a search stopped; nil: it did not
	kind, subject                string
	paused                       bool
	givenUp                      int64         // the ID of its signal
	held                         chan struct{} // if not nil, what pages are slow for is read once it is closed
	heldErr                      error         // and then fails
}

// fullLimit is a full limit of a hostile key.
var fullLimit = operate.LimitUse{Behind: 12, BehindExact: true, Limits: []operate.KeyLimit{
	{ID: 1, Key: hostile, MaxConcurrent: new(int), Waiting: 12, WaitingExact: true}}}

// slow waits until what pages are slow for may be read.
func (f *fakeReader) slow() error {
	if f.held != nil {
		<-f.held
	}
	return cmp.Or(f.heldErr, f.err)
}

func (f *fakeReader) Standing(ctx context.Context) (operate.Overview, error) {
	o, err := f.overview(ctx)
	return operate.Overview{Depth: operate.Depth{MaxClaims: o.Depth.MaxClaims}, Replicas: o.Replicas}, err
}

func (f *fakeReader) QueueDepth(ctx context.Context) (operate.Depth, error) {
	o, err := f.overview(ctx)
	return o.Depth, err
}

func (f *fakeReader) Overview(ctx context.Context) (operate.Overview, error) {
	f.looks++
	if err := f.slow(); err != nil {
		return operate.Overview{}, err
	}
	return f.overview(ctx)
}

func (f *fakeReader) overview(ctx context.Context) (operate.Overview, error) {
	if ctx.Err() != nil {
		return operate.Overview{}, ctx.Err()
	}
	if f.empty {
		return operate.Overview{Depth: operate.Depth{MaxClaims: 100, DeadLettersExact: true}}, f.err
	}
	deaf, long := false, int64(12_000)
	return operate.Overview{
		Depth: operate.Depth{Pending: 1_000_000, MaxClaims: 100, DeadLetters: 3, DeadLettersExact: true},
		Replicas: []operate.Replica{
			{ID: hostile, Version: hostile, Workers: 10,
				State: operate.ReplicaState{Busy: 3, Listening: &deaf, BreakerOpen: true, WakeUps: map[string]int64{hostile: 1}}}},
		Stalled: []operate.StallFor{{Stall: operate.Stall{Kind: "TASK_QUEUE", Name: hostile, Detail: hostile}}},
		Limits:  fullLimit,
		Minutes: []operate.Minute{
			{At: time.Date(2026, 8, 1, 12, 29, 0, 0, time.UTC), Completed: 10, Failed: 1, Started: 120, Passed: time.Minute,
				Waiting: &long, Waits: operate.Waits{1, 2}},
			{At: time.Date(2026, 8, 1, 12, 30, 0, 0, time.UTC)},
		},
	}, f.err
}

func (f *fakeReader) ListWorkspaces(_ context.Context, _ string, _ operate.WorkspaceOrder, after *operate.WorkspaceKey,
	_ int) ([]operate.WorkspaceRow, error) {
	f.listings++
	if after != nil { // without a cursor, the call may be the overview's
		f.after = after
	}
	rows := []operate.WorkspaceRow{}
	for range f.rows {
		rows = append(rows,
			operate.WorkspaceRow{ID: id, Name: hostile, Plan: "FREE", Limit: 5, Running: 2, Waiting: 1000, Rank: math.Inf(-1)})
	}
	return rows, f.slow()
}

func (f *fakeReader) FindWorkspaces(_ context.Context, idOrName string) ([]operate.WorkspaceName, error) {
	if idOrName == "nobody" {
		return nil, f.err
	}
	return []operate.WorkspaceName{{ID: id, Name: idOrName}}, f.err
}

func (f *fakeReader) Names(_ context.Context, _ operate.Named, name string) (operate.Names, error) {
	if name == "nobody" {
		return operate.Names{Near: []string{"somebody"}}, f.err
	}
	return operate.Names{Known: true}, f.err
}

func (f *fakeReader) ListItems(_ context.Context, filter operate.ItemFilter, status string, workspaces []string,
	definition string, _ int) (operate.ItemPage, error) {
	f.lists++
	f.filter, f.status, f.workspaces, f.definition = filter, status, workspaces, definition
	if f.empty {
		return operate.ItemPage{}, f.err
	}
	return operate.ItemPage{Items: []operate.Item{dead}, Next: 7, Looked: 10_000, Bounded: true}, f.err
}

var dead = operate.Item{ID: 8, ExecutionID: id, WorkflowID: "execution-" + id, Status: "FAILED",
	State: "OPEN", Workspace: hostile, WorkspaceID: id,
	WorkflowDefinition: hostile, WorkflowDefinitionID: id,
	LastError: hostile, IdempotencyKey: hostile, EnqueueKey: hostile, LimitKey: hostile,
	Traceparent: hostile, RunID: hostile, Namespace: "default",
	Params:    []byte(`{"name": "</pre><script>alert(1)</script>", "n": 12345678901234567890}`),
	CreatedAt: time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)}

func (f *fakeReader) ItemsNamed(ctx context.Context, refs []string, withParams bool) (map[string][]operate.Item,
	error) {
	item, execution := operate.ParseRef(refs[0])
	found, err := f.Items(ctx, []int64{item}, []string{execution}, withParams)
	return map[string][]operate.Item{refs[0]: found}, err
}

func (f *fakeReader) Items(_ context.Context, items []int64, executions []string,
	params bool) ([]operate.Item, error) {
	err := f.err
	if !params { // with them, it is of an item's page: whether there is one
		err = f.slow()
	}
	item := dead
	if f.item != nil {
		item = *f.item
	}
	if f.status8 != "" {
		item.Status = f.status8
	}
	if len(items) > 0 && slices.Contains(f.letters, items[0]) {
		found := make([]operate.Item, len(items))
		for n, id := range items {
			found[n] = item
			found[n].ID, found[n].FinishedAt = id, new(time.Unix(3, 123456000))
		}
		return found, err
	}
	if len(items) == 1 && items[0] == 8 || len(executions) == 1 && executions[0] == id {
		return []operate.Item{item}, err
	}
	return nil, err
}

func (f *fakeReader) Signals(context.Context, string, []string, int) ([]operate.Signal, error) {
	return []operate.Signal{{ID: f.givenUp, Name: hostile, SentBy: hostile, State: "GIVEN_UP", Error: hostile}}, f.err
}

func (f *fakeReader) Failures(context.Context, int64) ([]operate.Failure, error) {
	return []operate.Failure{{Failure: 1, Error: hostile, Replica: hostile}}, f.slow()
}

func (f *fakeReader) DeadGroups(context.Context, int) ([]operate.DeadGroup, error) {
	if f.empty {
		return nil, f.slow()
	}
	return []operate.DeadGroup{{Kind: hostile, Items: 3, Workspaces: 1, Newest: 8, Example: hostile}}, f.slow()
}

func (f *fakeReader) WorkspacesNamed(context.Context, []string, []string, int) ([]operate.WorkspaceName, error) {
	return []operate.WorkspaceName{{ID: id, Name: hostile}}, f.err
}
