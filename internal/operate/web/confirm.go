package web

import (
	"fmt"
	nethttp "net/http"

	"github.com/pgdispatch/pgdispatch/claim"
)

// confirmation asks before something is done that is not undone by another form.
type confirmation struct {
	Heading string
	What    []string // what would be done, a paragraph each
	To      string   // where the form goes
	Button  string
	Back    string // where to go instead
	// AskReason: there is a field for it, in which Reason was typed.
	AskReason bool
	Reason    string
	Wrong     string
	// Items are the IDs of those that are meant, and Newest the first of them; of a change of many only.
	Items  string
	Newest []listed
	Note   string
}

func askTerminate(i claim.QueueItem) confirmation {
	return confirmation{
		Heading: fmt.Sprintf("Terminate the workflow of item %d?", i.ID),
		What: []string{"Its workflow " + i.WorkflowID() + " ends at once: its code hears nothing of it, and cleans nothing up. The item becomes a dead letter, " +
			"which can be replayed.", "Where the workflow may still clean up, request its cancellation instead."},
		To: pathOf(i.ID) + "/terminate", Button: "Terminate", Back: pathOf(i.ID), AskReason: true,
	}
}

func (v visit) confirmTerminate(r *nethttp.Request) (string, any, error) {
	item, can, err := v.itemAndChoices(r)
	if err == nil && !can.Terminate {
		err = v.itemAsItIs(r, "")
	}
	return "confirm", askTerminate(item), err
}

func (v visit) confirmDiscard(r *nethttp.Request) (string, any, error) {
	item, can, err := v.itemAndChoices(r)
	if err == nil && !can.Discard {
		err = v.itemAsItIs(r, "")
	}
	return "confirm", confirmation{
		Heading: fmt.Sprintf("Discard item %d?", item.ID),
		What:    []string{"It is marked as seen to, and listed no more among the dead letters. Nothing is deleted, but by the retention of finished items. It can still be replayed from its page."},
		To:      pathOf(item.ID) + "/discard", Button: "Discard", Back: pathOf(item.ID), Newest: v.listed([]claim.QueueItem{item}),
	}, err
}

func (v visit) itemAndChoices(r *nethttp.Request) (claim.QueueItem, choices, error) {
	item, err := v.findItem(r)
	if err != nil {
		return item, choices{}, err
	}
	can, err := v.choices(r.Context(), item)
	return item, can, err
}

func (v visit) confirmPause(*nethttp.Request) (string, any, error) {
	return "confirm", confirmation{
		Heading: "Pause everything?",
		What:    []string{"Nothing more is started, of any workspace and by any replica, until it is resumed. What runs goes on, and its ends are recorded; what is enqueued waits."},
		To:      Prefix + "settings/pause", Button: "Pause everything", Back: Prefix + "settings",
	}, nil
}
