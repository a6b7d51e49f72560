package sql_test

import (
	"cmp"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql"
)

// parameters are the types of each statement's parameters, as the server infers them.
var parameters struct {
	once sync.Once
	of   map[string][]string
}

// arguments returns the calls of a statement that tests make: those that it needs to do its work, or one with any
// arguments of the right types.
func (f fixture) arguments(verb string, id int64, execution, workspace string) [][]any {
	if calls := own(verb, id, execution, workspace); calls != nil {
		return calls
	}
	parameters.once.Do(func() {
		parameters.of = map[string][]string{}
		conn := must.Get(f.pool.Acquire(f.t.Context())).In(f.t)
		defer conn.Release()
		for _, verb := range sql.Verbs() {
			statement, err := conn.Conn().Prepare(f.t.Context(), "", sql.Text(verb))
			require.NoError(f.t, err, verb)
			for _, oid := range statement.ParamOIDs {
				kind, known := conn.Conn().TypeMap().TypeForOID(oid)
				require.True(f.t, known, "%s: a parameter has the type %d", verb, oid)
				parameters.of[verb] = append(parameters.of[verb], kind.Name)
			}
		}
	})
	call := []any{}
	for _, kind := range parameters.of[verb] {
		call = append(call, map[string]any{
			"bool": false, "int4": 10, "int8": id, "interval": time.Minute, "_int4": []int{1}, "_int8": []int64{id},
			"_text": []string{}, "_uuid": []string{nobody}, "uuid": nobody,
		}[kind])
	}
	return [][]any{call}
}

// own are the arguments of statements for which not any will do.
func own(verb string, id int64, execution, workspace string) [][]any {
	ids, tokens, texts := []int64{id}, []int64{1}, []string{"text"}
	switch verb {
	case "claim", "claim_head", "claim_plain":
		return claimArguments(verb, workspace)
	case "load":
		return [][]any{{nil, nil, nil, nil, 10}, {nil, workspace, 0, "k", 10}, {"1", workspace, 0, nil, 10}}
	case "dispatched":
		return [][]any{{ids, tokens, texts, "replica-1"}}
	case "retry":
		return [][]any{{ids, tokens, texts, []time.Duration{time.Second}, []bool{false}},
			{ids, tokens, texts, []time.Duration{time.Second}, []bool{true}}}
	case "release":
		return [][]any{{ids, tokens, texts, []time.Duration{0}, []bool{false}, []bool{false}, []bool{false}},
			{ids, tokens, texts, []time.Duration{time.Second}, []bool{true}, []bool{false}, []bool{false}},
			{ids, tokens, texts, []time.Duration{time.Second}, []bool{true}, []bool{false}, []bool{true}},
			{ids, tokens, texts, []time.Duration{time.Second}, []bool{false}, []bool{true}, []bool{false}}}
	case "fail":
		return [][]any{{ids, tokens, texts}}
	case "heartbeat":
		return [][]any{{ids, tokens, lease}}
	case "finish":
		return [][]any{{execution, "COMPLETED", nil, `{"total": 3}`}, {execution, "FAILED", "it broke", nil},
			{execution, "TIMED_OUT", nil, nil}}
	case "finish_all":
		return [][]any{{[]string{execution}, []string{"COMPLETED"}, []any{nil}, []any{`{"total": 3}`}},
			{[]string{execution}, []string{"FAILED"}, texts, []any{nil}}}
	case "cancel":
		return [][]any{{execution}}
	case "sweep":
		return [][]any{{10, "replica-1"}}
	case "release_owned", "replica_gone":
		return [][]any{{"replica-1"}}
	case "give_up_watches":
		return [][]any{{"replica-1", nil}, {"replica-1", []string{execution}}}
	case "close_done":
		return [][]any{{"default", time.Now(), true, "workflow"}}
	case "gate_call":
		return [][]any{{"pgdispatch_help"}}
	case "ping":
		return [][]any{{"pgdispatch", "hello"}}
	case "replica_alive":
		return [][]any{{"replica-1", "dev", 4, lease, "default", `{"busy": 1}`}}
	case "park":
		return [][]any{{id, "no"}}
	case "give_back":
		return [][]any{{"replica-1", []int64{7}, 1000}}
	case "release_unread":
		return [][]any{{"replica-1", 0, 1000}}
	case "stall_record":
		return [][]any{{[]string{"orders"}, []string{"default"}, []int{1}, []string{execution}, []string{execution},
			[]string{"default"}, []string{"it fails"}, []string{}}}
	case "signal_take":
		return [][]any{{ids, []int{1}, []string{"DELIVERED"}, []*string{nil}, []*string{nil}, []string{}, 10}}
	case "workspace_activity_note":
		return [][]any{{[]string{nobody}, []int{1}, []int64{1}, []int64{1}}}
	}
	return ownOfOperators(verb, id, execution)
}

// ownOfOperators are those of the statements behind the command line and the web view.
func ownOfOperators(verb string, id int64, execution string) [][]any {
	ids := []int64{id}
	switch verb {
	case "item_purge":
		return [][]any{{ids, "me"}}
	case "item_cancel", "item_retry", "item_give_up", "dead_replay_all", "dead_discard":
		return [][]any{{ids, "me", nil}}
	case "items_enqueue", "items_enqueue_keyed":
		return [][]any{{`[{"workspace_id": "` + nobody + `", "definition_id": "` + nobody + `", "params": {}, "key": "k"}]`,
			"me"}}
	case "stop_done":
		return [][]any{{execution, "CANCEL", nil}}
	case "stop_request":
		return [][]any{{execution, "CANCEL", "enough", "me", nil}, {execution, "TERMINATE", "enough", "me", nil}}
	case "signal_send":
		return [][]any{{execution, "go", nil, "me", nil}}
	case "signal_send_to":
		return [][]any{{nobody, "order-1", "go", nil, "me"}}
	case "dead_replay":
		return [][]any{{execution, "me", nil}}
	case "limit_set":
		return [][]any{{nil, "k", `{"max_concurrent": 1, "max_starts": [1], "per": ["1s"]}`, "limits set", "me"}}
	case "definition_create":
		return [][]any{{nobody, "report", "Report", "reports", nil, nil, nil, `{"nodes": []}`, "me", nil, nil, nil, nil, nil}}
	case "definition_version":
		return [][]any{{nobody, `{"nodes": []}`, "me"}}
	case "workspace_create":
		return [][]any{{"new", `{"paused": false}`, "me"}}
	case "workspace_set":
		return [][]any{{nobody, "me", "workspaces pause", `{"paused": true}`, nil}}
	case "settings_set":
		return [][]any{{`{"max_claims": 50, "retention": "1h", "dead_letter_retention": null}`, "me"}}
	}
	return nil
}

// claimArguments request an item of the workspace, may wait for a row, and restrict namespaces.
func claimArguments(verb, workspace string) (calls [][]any) {
	some := entry{workspace: cmp.Or(workspace, nobody), items: 10, from: time.Unix(0, 0)}
	if verb == "claim_plain" {
		return [][]any{plainArguments("replica-2", nobody, 10, entry{}, []entry{some})}
	}
	keyed := some
	keyed.key, keyed.burst = "key", true
	for _, p := range []proposal{
		{atMost: 10, entries: []entry{some}},
		{atMost: 10, doubts: 1, careful: true, namespaces: map[string]int{"other": 1}, entries: []entry{keyed}},
	} {
		if verb == "claim_head" {
			calls = append(calls, []any{"replica-2", "default", p.json()})
		} else {
			calls = append(calls, []any{"replica-2", lease, "replica-1", "default", p.json()})
		}
	}
	return calls
}
