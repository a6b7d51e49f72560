package web

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// choices are the actions possible in an item's current state.
type choices struct{ Cancel, Retry, RequestCancel, Terminate, Replay, Discard bool }

func (c choices) Any() bool { return c != choices{} }

// mayResend reports whether a given-up signal of the item may still arrive: at its workflow, or at its replay's.
func mayResend(i operate.Item) bool {
	return i.Status == "PENDING" || i.Status == "CLAIMED" || i.Status == "DISPATCHED" || i.Mark == "REPLAYED"
}

func choicesOf(i operate.Item) (c choices) {
	switch i.Status {
	case "PENDING":
		c.Cancel, c.Retry = !i.Unanswered, i.DueIn > 0
		c.RequestCancel, c.Terminate = i.Unanswered && i.Stop == "", i.Unanswered && i.Stop != "TERMINATE"
	case "CLAIMED", "DISPATCHED":
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
	case i.Status == "PENDING" && i.Unanswered:
		return "PENDING with an unanswered start"
	}
	return i.Status
}

func pathOf(item int64) string { return Prefix + "items/" + strconv.FormatInt(item, 10) }

// doneIf returns done, a key of doneWords, if anything was changed. Otherwise it returns "".
func doneIf[T any](changed []T, done string) string {
	if len(changed) == 0 {
		return ""
	}
	return done
}

func (v visit) cancelItem(r *http.Request, who string) (next, error) {
	return v.changeItem(r, func(i operate.Item) (string, error) {
		items, err := v.Change.CancelItems(r.Context(), []int64{i.ID}, who)
		return doneIf(items, "cancelled"), err
	})
}

func (v visit) retryItem(r *http.Request, who string) (next, error) {
	return v.changeItem(r, func(i operate.Item) (string, error) {
		items, err := v.Change.RetryItems(r.Context(), []int64{i.ID}, who)
		return doneIf(items, "retried"), err
	})
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

func (v visit) discardItem(r *http.Request, who string) (next, error) {
	return v.changeItem(r, func(i operate.Item) (string, error) {
		items, err := v.Change.Discard(r.Context(), []int64{i.ID}, who)
		return doneIf(items, "discarded"), err
	})
}

func (v visit) resendSignal(r *http.Request, who string) (next, error) {
	id, err := strconv.ParseInt(r.PostForm.Get("signal"), 10, 64)
	if err != nil || id < 1 {
		return next{}, bad("signal must be the number of a signal.")
	}
	return v.changeItem(r, func(i operate.Item) (string, error) {
		_, sent, err := v.Change.ResendSignal(r.Context(), id, i.ExecutionID, who)
		if !sent {
			return "", err
		}
		return "resent", err
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
			temporal.Stop{ExecutionID: i.ExecutionID, How: how, Reason: r.PostForm.Get("reason"), RequestedBy: who})
		return map[string]string{"WITHDRAWN": "cancelled", "REQUESTED": "requested", "ALREADY_REQUESTED": "before"}[answer],
			err
	})
}
