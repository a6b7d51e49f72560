package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// itemsNamed is how many items of a change are named. The others are counted.
const itemsNamed = 10

// changeNames are the names of columns as people know them from the commands and pages.
var changeNames = map[string]string{
	"max_concurrent_workflows": "limit", "max_starts_per_second": "starts per second",
	"max_burst_workflows": "burst limit", "max_claims": "max-claims",
	"dead_letter_retention": "dead-letter-retention", "result_bytes": "result-bytes",
	"workflow_id_bytes": "workflow-id-bytes",
	"notify_ended":      "notify-ended",
	"replays":           "new items",
}

// Changes lists what an entry of the log of changes says, such as "plan: FREE → PRO". It returns nil if details is not
// a JSON object.
func Changes(details json.RawMessage) []string {
	var columns map[string]json.RawMessage
	if json.Unmarshal(details, &columns) != nil {
		return nil
	}
	words := []string{}
	for name, value := range columns {
		shown := cmp.Or(changeNames[name], name)
		var list []json.RawMessage
		isList := json.Unmarshal(value, &list) == nil && list != nil
		switch {
		case isList && slices.Contains([]string{"items", "replays", "workspaces"}, name):
			words = append(words, shown+": "+itemsOf(list))
		case isList && len(list) == 2:
			words = append(words, fmt.Sprintf("%s: %s → %s", shown, valueOf(list[0]), valueOf(list[1])))
		case name == "reason" && (string(value) == "null" || string(value) == `""`):
			words = append(words, NoReason)
		case name == "answer":
			words = append(words, strings.ToLower(strings.ReplaceAll(valueOf(value), "_", " ")))
		default:
			words = append(words, fmt.Sprintf("%s: %s", shown, valueOf(value)))
		}
	}
	slices.Sort(words)
	return words
}

// NoReason is the text for a cancellation or termination that was requested without a reason.
const NoReason = "no reason given"

// ChangeWords formats what an entry of the log of changes says on one line. Details that are not a JSON object stay as
// they are.
func ChangeWords(details json.RawMessage) string {
	words := Changes(details)
	if words == nil {
		return string(details)
	}
	return strings.Join(words, "; ")
}

// itemsOf formats the numbers of items, at most itemsNamed of them.
func itemsOf(items []json.RawMessage) string {
	words := []string{}
	for _, item := range items[:min(len(items), itemsNamed)] {
		words = append(words, valueOf(item))
	}
	text := strings.Join(words, ", ")
	if more := len(items) - itemsNamed; more > 0 {
		text += fmt.Sprintf(" and %s more", Number(int64(more)))
	}
	return text
}

// valueOf formats the JSON value of a column: strings without quotes, null as "not set".
func valueOf(value json.RawMessage) string {
	var text *string
	var is bool
	switch {
	case json.Unmarshal(value, &is) == nil && string(value) != "null":
		return map[bool]string{true: "yes", false: "no"}[is]
	case json.Unmarshal(value, &text) != nil:
		return strings.TrimSpace(string(value))
	case text == nil:
		return "not set"
	}
	return *text
}
