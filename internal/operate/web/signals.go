package web

import (
	"net/http"
	"strconv"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

// signal is a signal in words, with its indented payload.
type signal struct {
	operate.Signal
	Text, Shown string
}

// GivenUp reports whether the signal was given up.
func (s signal) GivenUp() bool { return s.State == "GIVEN_UP" && s.ID > 0 }

// Kind is the class of the signal's state.
func (s signal) Kind() string {
	return map[string]string{"DELIVERED": "good", "GIVEN_UP": "bad"}[s.State]
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

// sendSignal sends the signal that the form names.
func (v visit) sendSignal(r *http.Request, who string) (next, error) {
	name, payload := r.PostForm.Get("signal"), r.PostForm.Get("payload")
	if name == "" || payload != "" && operate.CheckJSON([]byte(payload)) != nil {
		item, err := v.findMine(r)
		if err != nil {
			return next{}, err
		}
		d, err := v.itemData(r, item)
		d.Typed = map[string]string{"signal": name, "payload": payload}
		d.Wrong = "Nothing was sent: a signal has a name, and its payload is JSON or empty."
		return next{}, orShown(err, "item", d)
	}
	return v.changeItem(r, func(i operate.Item) (string, error) {
		_, err := v.Change.SendSignal(r.Context(), i.ExecutionID, name, payload, who)
		return "sent", err
	})
}
