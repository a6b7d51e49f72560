package view

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Changes lists the columns that an entry of the log of changes changed, such as "plan: FREE → PRO". It returns nil if
// details is not a JSON object.
func Changes(details json.RawMessage) []string {
	var columns map[string]json.RawMessage
	if json.Unmarshal(details, &columns) != nil {
		return nil
	}
	words := []string{}
	for name, value := range columns {
		var pair []json.RawMessage
		if json.Unmarshal(value, &pair) == nil && len(pair) == 2 {
			words = append(words, fmt.Sprintf("%s: %s → %s", name, valueOf(pair[0]), valueOf(pair[1])))
		} else {
			words = append(words, fmt.Sprintf("%s: %s", name, valueOf(value)))
		}
	}
	slices.Sort(words)
	return words
}

// valueOf formats the JSON value of a column: strings without quotes, null as "not set".
func valueOf(value json.RawMessage) string {
	var text *string
	switch err := json.Unmarshal(value, &text); {
	case err != nil:
		return strings.TrimSpace(string(value))
	case text == nil:
		return "not set"
	}
	return *text
}
