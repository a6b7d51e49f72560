package sql_test

import (
	"cmp"
	"time"
)

// operatorArguments returns the arguments of the statements behind the command line.
func operatorArguments(verb string, id int64, execution string) [][]any {
	ids := []int64{id}
	switch verb {
	case "activity_note":
		return [][]any{{1, []int64{1}, []int64{1}}}
	case "activity_read":
		return [][]any{{time.Hour}}
	case "item_ahead":
		return [][]any{{id, 10}}
	case "audit_list":
		return [][]any{{nil, nil, nil, nil, nil, nil, nil, nil, nil, 10}}
	case "definition_complete":
		return [][]any{{nobody, "rep", 10, 10}}
	case "definition_list":
		return [][]any{{nobody, nil}}
	case "doctor_horizon":
		return [][]any{{time.Minute}}
	case "item_cancel", "item_purge", "item_retry":
		return [][]any{{ids, "me"}}
	case "item_enqueue":
		return [][]any{{nobody, nobody, "{}", 0, nil, nil, nil, "me", nil}}
	case "item_enqueue_key":
		return [][]any{{nobody, nobody, "{}", 0, nil, nil, "key", nil, nil, nil, "me", nil}}
	case "items_open":
		return [][]any{{ids}}
	case "item_find":
		return [][]any{{nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, false}}
	case "item_read":
		return [][]any{{ids, []string{}, true}}
	case "names_near":
		return [][]any{{"shop", false, nil, 10}}
	case "release_unread":
		return [][]any{{"replica-1", 0}}
	case "park":
		return [][]any{{id, "no"}}
	case "bring_back":
		return [][]any{{500}}
	case "stall_turn":
		return [][]any{{time.Minute, time.Minute, 10}}
	case "stall_pick":
		return [][]any{{time.Minute, []string{}, []string{}, 10}}
	case "stall_record":
		return [][]any{
			{[]string{"orders"}, []string{"default"}, []int{1}, []string{execution}, []string{execution}, []string{"default"},
				[]string{"it fails"}, []string{}}}
	case "stalled":
		return [][]any{{10, nil}}
	case "stop_done":
		return [][]any{{execution, "CANCEL", nil}}
	case "stop_request":
		return [][]any{{execution, "CANCEL", "enough", "me"}, {execution, "TERMINATE", "enough", "me"}}
	case "stop_take":
		return [][]any{{10}}
	case "workspace_find":
		return [][]any{{nil, nil, nil}}
	case "workspace_list":
		return [][]any{{nil, nil, nil, nil}}
	case "workspace_search":
		return [][]any{{"shop", 10, 10}}
	case "workspace_named":
		return [][]any{{[]string{nobody}, []string{"shop"}, 10}}
	case "workspace_set":
		return [][]any{{nobody, "me", "workspaces pause", nil, true, false, nil, false, nil, false, nil}}
	}
	return viewArguments(verb, id, execution)
}

// viewArguments are those of the statements of the web view.
func viewArguments(verb string, id int64, execution string) [][]any {
	switch verb {
	case "view_dead_group":
		return [][]any{{10, "it broke", 10, nil, nil, nil}}
	case "view_dead_groups":
		return [][]any{{10, 10, nil}}
	case "view_depth":
		return [][]any{{[]string{nobody}, 10}}
	case "view_ended":
		return [][]any{{nil, 10, 10}, {[]string{nobody}, 10, 10}}
	case "view_items":
		return [][]any{{nil, nil, nil, nil, nil, nil, nil, nil, id + 1, 10, 10}}
	case "view_workspace":
		return [][]any{{nobody, 10, 10}}
	case "view_workspaces":
		return [][]any{{"name", nil, nil, nil, 10, 10, 10}}
	case "view_workspaces_of":
		return [][]any{{[]string{nobody}, nil, "name", nil, nil, nil, 10, 10, 10}}
	}
	return deadArguments(verb, id, execution)
}

// deadArguments returns the arguments of the verbs for dead letters, limits, signals and the activity of workspaces.
func deadArguments(verb string, id int64, execution string) [][]any {
	ids := []int64{id}
	switch verb {
	case "workspace_activity_note":
		return [][]any{{[]string{nobody}, []int{1}, []int64{1}, []int64{1}}}
	case "workspace_activity_read":
		return [][]any{{nobody, time.Hour}}
	case "view_errors":
		return [][]any{{10, "", 10}}
	case "limits_in_use", "doctor_limits", "doctor_limit_keys":
		return [][]any{{10, 10}}
	case "limit_list":
		return [][]any{{nil, nil, false, 0, 10}}
	case "limit_set":
		return [][]any{{nil, "k", true, 1, true, []int{1}, []time.Duration{time.Second}, "me"}}
	case "limit_remove":
		return [][]any{{nil, "k", "me"}}
	case "dead_find":
		return [][]any{{"open", nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil}}
	case "dead_horizon":
		return [][]any{{10, nil, nil}}
	case "dead_known":
		return [][]any{{"tenant on FREE", "report"}}
	case "dead_history":
		return [][]any{{id}}
	case "dead_replay":
		return [][]any{{execution, "me"}}
	case "dead_replay_all", "dead_discard":
		return [][]any{{ids, "me"}}
	case "signal_send":
		return [][]any{{execution, "go", nil, "me"}}
	case "signal_resend":
		return [][]any{{1, nil, "me"}}
	case "signal_list":
		return [][]any{{execution, []string{"OPEN"}, 10}}
	case "signal_take":
		return [][]any{{ids, []int{1}, []string{"DELIVERED"}, []*string{nil}, []*string{nil}, []string{}, 10}}
	}
	return creationArguments(verb)
}

// creationArguments returns the arguments of the statements that add rows from a file or flags.
func creationArguments(verb string) [][]any {
	switch verb {
	case "definition_create":
		return [][]any{{nobody, "report", "Report", "reports", nil, nil, nil, `{"nodes": []}`, "me"}}
	case "definition_version":
		return [][]any{{nobody, `{"nodes": []}`, "me"}}
	case "definitions":
		return [][]any{{nil, nil, nil, 10}}
	case "items_enqueue":
		return [][]any{{[]string{nobody}, []string{nobody}, []string{"{}"}, []int{0}, []*time.Time{nil},
			[]*time.Duration{nil}, []*string{nil},
			[]*string{nil}, "me", []*string{nil}}}
	case "workspace_create":
		return [][]any{{"new", nil, nil, nil, false, "me", nil}}
	}
	return [][]any{{}}
}

// Arguments for each verb that changes an item, if its state allows it.
func arguments(verb string, id int64, execution, workspace string) [][]any {
	ids, tokens, texts := []int64{id}, []int64{1}, []string{"text"}
	switch verb {
	case "claim", "claim_head", "claim_single":
		return claimArguments(verb, workspace)
	case "load":
		return [][]any{{nil, nil, nil, nil, 10}, {nil, workspace, 0, "k", 10}, {"1", workspace, 0, nil, 10}}
	case "arrivals":
		return [][]any{{"1:1:", "9:9:", 10}}
	case "enqueued_before":
		return [][]any{{ids, "1:1:"}}
	case "look":
		return [][]any{{"1:1:", 1000, nobody}}
	case "dispatched":
		return [][]any{{ids, tokens, texts, "replica-1"}}
	case "retry":
		return [][]any{{ids, tokens, texts, []time.Duration{time.Second}, []bool{false}},
			{ids, tokens, texts, []time.Duration{time.Second}, []bool{true}}}
	case "release":
		return [][]any{{ids, tokens, texts, []time.Duration{0}, []bool{false}},
			{ids, tokens, texts, []time.Duration{time.Second}, []bool{true}}}
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
	case "workspace_statistics", "queue_depth":
		return [][]any{{10}}
	case "sweep":
		return [][]any{{10, "replica-1"}}
	case "release_owned", "replica_gone":
		return [][]any{{"replica-1"}}
	case "adopt":
		return [][]any{{"replica-2", 10, []string{}}}
	case "unlocked":
		return [][]any{{ids}}
	case "give_up_watches":
		return [][]any{{"replica-1", nil}, {"replica-1", []string{execution}}}
	case "close_turn":
		return [][]any{{time.Second, time.Minute, "default"}}
	case "close_done":
		return [][]any{{"default", time.Now(), true}}
	case "open_among", "node_ids":
		return [][]any{{[]string{nobody}}}
	case "silent":
		return [][]any{{10, time.Second}}
	case "swap_watches":
		return [][]any{{"replica-1", 10}}
	case "gate_call":
		return [][]any{{"pgdispatch_help"}}
	case "ping":
		return [][]any{{"pgdispatch", "hello"}}
	case "replica_alive":
		return [][]any{{"replica-1", "dev", 4, lease, "default", `{"busy": 1}`}}
	case "settings_set":
		return [][]any{{50, false, 100, true, "me"}}
	case "retention_set":
		return [][]any{{true, time.Hour, true, nil, "me"}}
	case "delete_finished":
		return [][]any{{100}}
	}
	return operatorArguments(verb, id, execution)
}

// claimArguments request an item of the workspace, may wait for a row, and restrict namespaces.
func claimArguments(verb, workspace string) (calls [][]any) {
	workspace = cmp.Or(workspace, nobody)
	if verb == "claim_single" {
		return [][]any{{"replica-2", lease, nil, nobody, 10, 0, 0, workspace, 0, 10, time.Unix(0, 0), 0, 0, 0, 0, "default"}}
	}
	some := entry{workspace: workspace, items: 10, from: time.Unix(0, 0)}
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
