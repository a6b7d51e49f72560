package web

import (
	"net/http"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

// shownSignals is how many signals an item's page shows, the newest.
const shownSignals = 50

// itemData is the data of an item's page.
type itemData struct {
	listed
	Story []view.Event
	// Why says why it waits, or is empty. Result is indented JSON, or empty.
	Why, Result string
	ResultCut   bool
	Durations   []view.Fact
	History     []operate.Administered
	// Params is indented JSON. ParamsCut reports whether it was cut.
	Params    string
	ParamsCut bool
	Acting    bool
	Can       choices
	// MayResend reports whether its given-up signals have a button that sends them again.
	MayResend bool
	// Reason is the text typed into the form, Wrong the reason why a change was refused.
	Reason, Wrong string
}

func (v visit) itemData(r *http.Request, item operate.Item) (itemData, error) {
	failures, err := v.Read.Failures(r.Context(), item.ID)
	if err != nil {
		return itemData{}, err
	}
	signals, err := v.Read.Signals(r.Context(), item.ExecutionID, nil, shownSignals)
	if err != nil {
		return itemData{}, err
	}
	d := itemData{listed: listed{item, v.inTemporal(item)}, Story: view.Story(item, failures, signals),
		Acting: v.acts.in(item.WorkspaceID)}
	lines, whole := view.IndentJSON(string(item.Params), paramsShown)
	d.Params, d.ParamsCut, d.Durations = lines, !whole, view.Durations(item)
	if len(item.Result) > 0 {
		result, whole := view.IndentJSON(string(item.Result), paramsShown)
		d.Result, d.ResultCut = result, !whole
	}
	if d.Why, err = v.whyWaiting(r.Context(), item); err != nil {
		return d, err
	}
	if d.History, err = v.Read.ChangesOf(r.Context(), item.ID); err != nil {
		return d, err
	}
	if d.Acting {
		d.MayResend, d.Can = mayResend(item), choicesOf(item)
	}
	return d, nil
}
