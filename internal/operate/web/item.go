package web

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// paramsShown is the maximum number of bytes of an item's params on its page.
const paramsShown = 64 << 10

// shownSignals is how many signals an item's page shows, the newest.
const shownSignals = 50

// itemData is the data of an item's page.
type itemData struct {
	listed
	Story []step
	// Failures are the attempts that failed, and Nodes the IDs of its definition's graph.
	Failures []operate.Failure
	Signals  []signal
	Nodes    []string
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
	// Reason is the text typed into the form, Wrong the reason why a change was refused. Typed is a signal that was
	// refused.
	Reason, Wrong string
	Typed         map[string]string
}

// step is an event of the timeline, with its kind and the time since the event before it.
type step struct {
	view.Event
	Kind, After string
}

func (v visit) item(r *http.Request) (string, any, error) {
	item, err := v.findItem(r)
	if err != nil {
		return "", nil, err
	}
	return "item", later(func() (any, error) { return v.itemData(r, item) }), nil
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
	rows, err := v.listed(r.Context(), []operate.Item{item})
	if err != nil {
		return itemData{}, err
	}
	d := itemData{listed: rows[0], Story: stepsOf(item), Failures: failures, Acting: v.acts.in(item.WorkspaceID)}
	for _, s := range signals {
		shown, _ := view.IndentJSON(string(s.Payload), paramsShown)
		d.Signals = append(d.Signals, signal{s, view.SignalOf(item, s), shown})
	}
	if d.Nodes, err = v.Read.Nodes(r.Context(), item.ID); err != nil {
		return d, err
	}
	lines, whole := view.IndentJSON(string(item.Params), paramsShown)
	d.Params, d.ParamsCut, d.Durations = lines, !whole, view.Durations(item)
	if len(item.Result) > 0 {
		result, whole := view.IndentJSON(string(item.Result), paramsShown)
		d.Result, d.ResultCut = result, !whole
	}
	if d.Why, err = view.WhyItWaits(r.Context(), v.Read, item); err != nil {
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

// stepsOf returns the timeline of an item, without what is listed beside it.
func stepsOf(item operate.Item) (steps []step) {
	events := view.Story(item, nil, nil)
	for n, e := range events {
		s := step{Event: e}
		ended := item.FinishedAt != nil && e.At.Equal(*item.FinishedAt)
		switch {
		case e.Start:
			s.Kind = "busy"
		case ended && item.Status == "COMPLETED":
			s.Kind = "good"
		case ended && item.Status == "FAILED":
			s.Kind = "bad"
		}
		if n > 0 {
			s.After = strings.Replace(view.Span(e.At.Sub(events[n-1].At)), ".0 ", " ", 1)
		}
		steps = append(steps, s)
	}
	return steps
}

// findItem reads the item named by the path.
func (s *Site) findItem(r *http.Request) (operate.Item, error) {
	return s.itemNamed(r.Context(), r.PathValue("id"))
}

// itemNamed reads the item that a reference names; see operate.Store.ItemsNamed.
func (s *Site) itemNamed(ctx context.Context, ref string) (operate.Item, error) {
	named, err := s.Read.ItemsNamed(ctx, []string{ref}, true)
	id, execution := operate.ParseRef(ref)
	switch items := named[ref]; {
	case err != nil:
		return operate.Item{}, err
	case len(items) == 0 && id == 0 && execution == "":
		return operate.Item{}, bad("An item is identified by its number, its execution's ID or its workflow's ID.")
	case len(items) == 0:
		return operate.Item{}, noSuchItem
	default:
		return items[0], nil
	}
}

// params sends an item's params unchanged, as a file.
func (s *Site) params(w http.ResponseWriter, r *http.Request) {
	item, err := s.findItem(r)
	if err != nil {
		s.answer(w, r, "", "", nil, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="params-%d.json"`, item.ID))
	_, _ = w.Write(item.Params)
}

// inTemporal returns the URL of an item's workflow in Temporal's web interface. It is empty if TemporalUI is not set or
// the item has no known run.
func (s *Site) inTemporal(i operate.Item) string {
	if s.TemporalUI == "" || i.Namespace == "" || i.RunID == "" {
		return ""
	}
	at := "/workflows/"
	if i.Kind == temporal.Activity {
		at = "/activities/"
	}
	return strings.TrimRight(s.TemporalUI, "/") + "/namespaces/" + url.PathEscape(i.Namespace) + at +
		url.PathEscape(i.WorkflowID) + "/" + url.PathEscape(i.RunID)
}

// choices are the actions possible in an item's current state.
type choices struct{ Cancel, Retry, GiveUp, RequestCancel, Terminate, Replay, Discard, Signal bool }

// Any reports whether there is one beside the page's title.
func (c choices) Any() bool { return c != choices{Signal: c.Signal} }

// mayResend reports whether a given-up signal of the item may still arrive: at its workflow, or at its replay's.
func mayResend(i operate.Item) bool {
	return i.Status == "PENDING" || i.Status == "CLAIMED" || i.Status == "DISPATCHED" || i.Mark == "REPLAYED"
}

func choicesOf(i operate.Item) (c choices) {
	c.Signal = i.Kind != temporal.Activity && (i.Status == "PENDING" || i.Status == "CLAIMED" || i.Status == "DISPATCHED")
	switch i.Status {
	case "PENDING":
		c.Cancel, c.Retry = !i.Unanswered, i.DueIn > 0
		c.RequestCancel, c.Terminate = i.Unanswered && i.Stop == "", i.Unanswered && i.Stop != "TERMINATE"
		c.GiveUp = i.Unanswered && i.GivenUpBy == ""
	case "CLAIMED", "DISPATCHED":
		c.GiveUp = i.Status == "DISPATCHED" && i.MissingSince != nil
		c.RequestCancel, c.Terminate = i.Stop == "", i.Stop != "TERMINATE"
	case "FAILED":
		c.Discard, c.Replay = i.State == "OPEN", i.State != "REPLAYED"
	}
	return c
}

// changeItem applies do to the item named by the path. If the item's state no longer allows the change, the page shows
// its current state.
func (v visit) changeItem(r *http.Request, do func(operate.Item) (done string, err error)) (next, error) {
	item, err := v.findMine(r)
	if err != nil {
		return next{}, err
	}
	done, err := do(item)
	if what, _, refused := postgres.Refusal(err); refused {
		return next{}, v.itemAsItIs(r, "Nothing was changed: "+what+".")
	}
	if err == nil && done == "" {
		return next{}, v.itemAsItIs(r, "")
	}
	return next{to: pathOf(item.ID), done: done}, err
}

// itemAsItIs shows the item's page with the reason why nothing was changed. If wrong is empty, the reason is the item's
// current state.
func (v visit) itemAsItIs(r *http.Request, wrong string) error {
	item, err := v.findItem(r)
	if err != nil {
		return err
	}
	d, err := v.itemData(r, item)
	if err != nil {
		return err
	}
	if d.Wrong = wrong; wrong == "" {
		d.Wrong = fmt.Sprintf("Nothing was changed: item %d is now %s, which does not allow this action.", item.ID,
			nowIs(item))
	}
	return shown{http.StatusConflict, "item", d}
}

func nowIs(i operate.Item) string {
	switch {
	case i.Mark != "":
		return i.Status + " and " + i.Mark
	case i.Uncertain:
		return "PENDING after its lease expired"
	case i.Status == "PENDING" && i.Tries > 0:
		return "PENDING after starts that failed"
	case i.Status == "PENDING" && i.Unanswered:
		return "PENDING with an unanswered start"
	}
	return i.Status
}

func pathOf(item int64) string { return Prefix + "items/" + strconv.FormatInt(item, 10) }

// actOn applies verb to the item named by the path. done is a key of doneWords.
func (v visit) actOn(verb bulkVerb, done string) change {
	return func(r *http.Request, who string) (next, error) {
		return v.changeItem(r, func(i operate.Item) (string, error) {
			changed, err := verb.do(v.Change, r.Context(), []int64{i.ID}, who)
			if changed == 0 {
				return "", err
			}
			return done, err
		})
	}
}

func (v visit) replayItem(r *http.Request, who string) (next, error) {
	return v.changeItem(r, func(i operate.Item) (string, error) {
		replay, err := v.Change.Replay(r.Context(), i.ExecutionID, who)
		if !replay.Replayed {
			return "", err
		}
		return "replayed", err
	})
}

const wrongReason = "Nothing was changed: the reason must have at most 500 characters and no control characters."

func (v visit) requestCancel(r *http.Request, who string) (next, error) {
	if reason := r.PostForm.Get("reason"); !operate.ValidReason(reason) {
		item, err := v.findMine(r)
		if err != nil {
			return next{}, err
		}
		d, err := v.itemData(r, item)
		d.Reason, d.Wrong = reason, wrongReason
		return next{}, orShown(err, "item", d)
	}
	return v.requestStop(r, who, "CANCEL")
}

func (v visit) terminate(r *http.Request, who string) (next, error) {
	if reason := r.PostForm.Get("reason"); !operate.ValidReason(reason) {
		item, err := v.findMine(r)
		asked := askTerminate(item)
		asked.Reason, asked.Wrong = reason, wrongReason
		return next{}, orShown(err, "confirm", asked)
	}
	return v.requestStop(r, who, "TERMINATE")
}

// orShown returns err or, if it is nil, the page that shows what was wrong with the input.
func orShown(err error, name string, data any) error {
	if err != nil {
		return err
	}
	return shown{http.StatusUnprocessableEntity, name, data}
}

func (v visit) requestStop(r *http.Request, who, how string) (next, error) {
	return v.changeItem(r, func(i operate.Item) (string, error) {
		answer, err := v.Change.RequestStop(r.Context(),
			temporal.Stop{Execution: temporal.Execution{ID: i.ExecutionID}, How: how, Reason: r.PostForm.Get("reason"),
				RequestedBy: who})
		return map[string]string{"WITHDRAWN": "cancelled", "REQUESTED": "requested", "ALREADY_REQUESTED": "before"}[answer],
			err
	})
}
