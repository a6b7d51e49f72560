package web

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

// confirmation is the data of a page that asks for confirmation of a change that no other form undoes.
type confirmation struct {
	Heading string
	What    []string // paragraphs that describe the change
	To      string   // target of the form
	Button  string
	Back    string // target of the link that changes nothing
	// AskReason adds a field for a reason. Reason is its value.
	AskReason bool
	Reason    string
	Wrong     string
	// Items holds the comma-separated IDs of a bulk change, Rows the items to list.
	Items string
	Rows  []listed
	Note  string
	// Destroys reports whether the change cannot be undone.
	Destroys bool
}

// joined is readItems' input.
func joined(ids []int64) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(ids), "[]"), " ", ",")
}

// BackTo returns Back below Prefix, for the form.
func (c confirmation) BackTo() string { return strings.TrimPrefix(c.Back, Prefix) }

// Acting is false, so that the list has no checkboxes.
func (confirmation) Acting() bool { return false }

func askTerminate(i operate.Item) confirmation {
	return confirmation{
		Heading: fmt.Sprintf("Terminate the workflow of item %d?", i.ID),
		What: []string{"Its workflow " + i.WorkflowID +
			" ends immediately. Its code is not notified and cannot clean up. The item becomes a dead letter, " +
			"which can be replayed.", "To let the workflow clean up, request its cancellation instead."},
		To: pathOf(i.ID) + "/terminate", Button: "Terminate", Back: pathOf(i.ID), AskReason: true,
		Destroys: true,
	}
}

func (v visit) confirmTerminate(r *http.Request) (string, any, error) {
	item, err := v.findMine(r)
	if err == nil && !choicesOf(item).Terminate {
		err = v.itemAsItIs(r, "")
	}
	return "confirm", askTerminate(item), err
}

func (v visit) confirmDiscard(r *http.Request) (string, any, error) {
	item, err := v.findMine(r)
	if err == nil && !choicesOf(item).Discard {
		err = v.itemAsItIs(r, "")
	}
	if err != nil {
		return "", nil, err
	}
	rows, err := v.listed(r.Context(), []operate.Item{item})
	return "confirm", confirmation{
		Heading: fmt.Sprintf("Discard item %d?", item.ID),
		What: []string{"It is marked as handled and no longer listed among the dead letters. Only the retention of " +
			"finished items deletes it. It can still be replayed from its page."},
		To: pathOf(item.ID) + "/discard", Button: "Discard", Back: pathOf(item.ID),
		Rows: rows, Destroys: true,
	}, err
}

func (v visit) confirmGiveUp(r *http.Request) (string, any, error) {
	item, err := v.findMine(r)
	if err == nil && !choicesOf(item).GiveUp {
		err = v.itemAsItIs(r, "")
	}
	if err != nil {
		return "", nil, err
	}
	what := []string{"It is not started again. A replica asks Temporal for its workflow: if Temporal has it, the item " +
		"goes on; if Temporal does not find it for a minute, the item fails and its slot is free."}
	if item.MissingSince != nil && item.Status == "DISPATCHED" {
		what = []string{"Temporal does not find its workflow, and you say that it is gone. A replica asks once more: if " +
			"Temporal still does not find it, the item fails and its slot is free.",
			"Check first that TEMPORAL_ADDRESS leads to the right cluster: a workflow that still runs would run beside " +
				"others."}
	}
	rows, err := v.listed(r.Context(), []operate.Item{item})
	return "confirm", confirmation{
		Heading: fmt.Sprintf("Give up item %d?", item.ID), What: what,
		To: pathOf(item.ID) + "/give-up", Button: "Give up", Back: pathOf(item.ID),
		Rows: rows, Destroys: true,
	}, err
}

// findMine is findItem for items that the visitor may change.
func (v visit) findMine(r *http.Request) (operate.Item, error) {
	item, err := v.findItem(r)
	if err == nil && !v.acts.in(item.WorkspaceID) {
		err = onlyViewed
	}
	return item, err
}

func (v visit) confirmPause(*http.Request) (string, any, error) {
	if !v.acts.all {
		return "", nil, ofAll
	}
	return "confirm", confirmation{
		Heading: "Pause everything?",
		What: []string{"No replica starts items of any workspace until you resume. Running workflows continue, and " +
			"their ends are recorded. New items wait."},
		To: Prefix + "settings/pause", Button: "Pause everything", Back: Prefix + "settings",
		Destroys: true,
	}, nil
}
