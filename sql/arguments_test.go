package sql_test

import "time"

// operatorArguments are those of the statements of a person at the command line.
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
	case "definition_find":
		return [][]any{{"report", nil, 10}}
	case "definition_list":
		return [][]any{{nobody}}
	case "dead_read":
		return [][]any{{ids, []string{}}}
	case "doctor_horizon":
		return [][]any{{time.Minute}}
	case "item_cancel", "item_retry":
		return [][]any{{ids, "me"}}
	case "item_enqueue":
		return [][]any{{nobody, nobody, "{}", 0, nil, nil, nil, "me"}}
	case "item_find":
		return [][]any{{nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, false}}
	case "item_read":
		return [][]any{{ids, []string{}, true}}
	case "names_near":
		return [][]any{{"shop", false, nil, 10}}
	case "park":
		return [][]any{{id, "no"}}
	case "stall_turn":
		return [][]any{{time.Minute, time.Minute, 10}}
	case "stall_pick":
		return [][]any{{time.Minute, []string{}, []string{}, 10}}
	case "stall_record":
		return [][]any{{[]string{"orders"}, []string{"default"}, []int{1}, []string{execution}, []string{execution}, []string{"default"}, []string{"it fails"}, []string{}}}
	case "stalled":
		return [][]any{{10}}
	case "stop_done":
		return [][]any{{execution, "CANCEL", nil}}
	case "stop_request":
		return [][]any{{execution, "CANCEL", "enough", "me"}, {execution, "TERMINATE", "enough", "me"}}
	case "stop_take":
		return [][]any{{10}}
	case "view_dead_group":
		return [][]any{{10, "it broke", 10, nil, nil}}
	case "view_dead_groups":
		return [][]any{{10, 10}}
	case "view_items":
		return [][]any{{nil, nil, nil, nil, nil, nil, nil, nil, id + 1, 10, 10}}
	case "view_workspace":
		return [][]any{{nobody, 10, 10}}
	case "view_workspaces":
		return [][]any{{nil, "name", nil, nil, nil, 10, 10, 10}}
	case "workspace_find":
		return [][]any{{nil, nil, nil}}
	case "workspace_list":
		return [][]any{{nil, nil, nil, nil}}
	case "workspace_set":
		return [][]any{{nobody, "me", "workspaces pause", nil, true, false, nil, false, nil}}
	}
	return creationArguments(verb)
}

// creationArguments are those of the statements that add rows from a file or flags.
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
			[]*string{nil}, "me"}}
	case "workspace_create":
		return [][]any{{"new", nil, nil, nil, false, "me"}}
	}
	return [][]any{{}}
}
