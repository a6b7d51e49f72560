package operate

import (
	"cmp"
	"encoding/json"
	"slices"
)

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
