package web

import (
	"context"
	"errors"
	nethttp "net/http"

	"github.com/pgdispatch/pgdispatch/claim"
)

// Changer is what the pages change. Each change writes who asked for it into the log of changes, in the same statement.
type Changer interface {
	ChangeWorkspace(ctx context.Context, id, who, command string, c claim.WorkspaceChange) (claim.Change, error)
	SetSettings(ctx context.Context, maxClaims *int, paused *bool, resultBytes *int, who string) (claim.Settings, error)
	CancelItems(ctx context.Context, items []int64, who string) ([]int64, error)
	RetryItems(ctx context.Context, items []int64, who string) ([]int64, error)
	RequestStop(ctx context.Context, stop claim.Stop) (string, error)
	Replay(ctx context.Context, executionID, who string) (claim.Replay, error)
	ReplayAll(ctx context.Context, items []int64, who string) ([]claim.Replayed, error)
	Discard(ctx context.Context, items []int64, who string) ([]int64, error)
}

// maxBody is how many bytes a form may have: the IDs of as many items as are changed at once fit.
const maxBody = 256 << 10

// visit is the pages as one visitor has them.
type visit struct {
	*Site
	acting bool // whether they may change something
}

// Acting serves the pages below Prefix to who may change something, too. A browser sends the password of its own accord, so what
// another site's page has it send is refused.
func (s *Site) Acting() nethttp.Handler {
	v := visit{s, true}
	mux := s.routes(v)
	for path, of := range v.questions() {
		mux.HandleFunc("GET "+Prefix+path, s.page(of))
	}
	for path, do := range map[string]change{
		"workspaces/{id}/pause": v.pauseWorkspace(true), "workspaces/{id}/resume": v.pauseWorkspace(false),
		"workspaces/{id}/plan": v.setPlan, "workspaces/{id}/limit": v.setLimit, "workspaces/{id}/rate": v.setRate,
		"items/{id}/cancel": v.cancelItem, "items/{id}/retry": v.retryItem, "items/{id}/replay": v.replayItem, "items/{id}/discard": v.discardItem,
		"items/{id}/request-cancel": v.requestCancel, "items/{id}/terminate": v.terminate,
		"dead/replay": v.bulk(replay), "dead/discard": v.bulk(discard),
		"settings/pause": v.pauseAll(true), "settings/resume": v.pauseAll(false), "settings/max-claims": v.setMaxClaims,
	} {
		mux.HandleFunc("POST "+Prefix+path, v.act(do))
	}
	protection := nethttp.NewCrossOriginProtection()
	protection.SetDenyHandler(s.page(func(*nethttp.Request) (string, any, error) {
		return "", nil, problem{nethttp.StatusForbidden, "Another site asked for this, so nothing was changed.", "Open the page here, by the address that this one has, and do it there."}
	}))
	return withHeaders(protection.Handler(nethttp.MaxBytesHandler(mux, maxBody)))
}

// questions are the pages that ask before something is done.
func (v visit) questions() map[string]handler {
	return map[string]handler{
		"items/{id}/terminate": v.confirmTerminate, "items/{id}/discard": v.confirmDiscard,
		"dead/replay": v.dryRun(replay), "dead/discard": v.dryRun(discard), "settings/pause": v.confirmPause,
	}
}

func readOnly(*nethttp.Request) (string, any, error) {
	return "", nil, problem{nethttp.StatusForbidden, "Nothing was changed: these pages are for looking only.",
		"To act, sign in with `PGDISPATCH_ADMIN_TOKEN` as the password; a replica that has none needs one first."}
}

// change does what a form asks for, and says where the browser goes on: at a page by a redirect, with a word on what was done, or at
// once.
type change func(r *nethttp.Request, who string) (next, error)

type next struct {
	to, done string // a path, and a key of doneWords
	name     string // of a page to show instead
	data     any
}

const doneParameter = "done"

// doneWords are all that an address can have a page say.
var doneWords = map[string]string{
	"changed":   "Done. It holds from the next claim on.",
	"same":      "It was like that already: nothing was changed.",
	"cancelled": "Withdrawn: it is not started.",
	"retried":   "It is due now, and waits its turn under the same limits.",
	"requested": "Requested. A replica carries it out.",
	"before":    "That was requested before: nothing was changed.",
	"replayed":  "Replayed, as a new item.",
	"discarded": "Discarded: it is listed no more.",
}

// act has a form do something, in the name of who sent it, and redirects, so that to load the answer again does nothing again. A
// change that was begun is finished, whoever still waits for it.
func (v visit) act(do change) nethttp.HandlerFunc {
	return func(w nethttp.ResponseWriter, r *nethttp.Request) {
		who, err := whoSent(r)
		if err == nil {
			err = readForm(r)
		}
		var then next
		if err == nil {
			then, err = do(r.WithContext(context.WithoutCancel(r.Context())), who)
		}
		switch {
		case err != nil:
			v.answer(w, r, "", nil, v.refused(r, err, who))
			return
		case then.to == "":
			v.answer(w, r, then.name, then.data, nil)
		default:
			nethttp.Redirect(w, r, then.to+"?"+doneParameter+"="+then.done, nethttp.StatusSeeOther)
		}
		v.Log.InfoContext(r.Context(), "Changed from a page", "path", r.URL.Path, "who", who)
	}
}

// refused says what to do where Postgres or pgdispatch in it refused a change. Each statement is done as a whole or not at all.
func (v visit) refused(r *nethttp.Request, err error, who string) error {
	if claim.IsForbidden(err) {
		v.Log.WarnContext(r.Context(), "Postgres does not let the pages change this", "path", r.URL.Path, "who", who, "error", err)
		return problem{nethttp.StatusForbidden, "Postgres does not let this replica's role change that, so nothing was changed.",
			"Have `PGDISPATCH_OPERATOR_DATABASE_URL` connect the replica as a role that may, such as one in `pgdispatch_operator`; or use the command line."}
	}
	if what, remedy, is := claim.Refusal(err); is {
		return problem{nethttp.StatusConflict, "Nothing was changed: " + what + ".", remedy}
	}
	return err
}

// whoSent is the name that came with the token, for the log of changes.
func whoSent(r *nethttp.Request) (string, error) {
	who := "web"
	if name, _, basic := r.BasicAuth(); basic && name != "" {
		who = name + " (web)"
	}
	if !claim.ValidWho(who) {
		return "", problem{nethttp.StatusBadRequest, "The log of changes cannot have the name that came with the token, so nothing was changed.",
			"Sign in with a name of up to 194 characters, without control characters."}
	}
	return who, nil
}

func readForm(r *nethttp.Request) error {
	err := r.ParseForm()
	var tooLarge *nethttp.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return problem{nethttp.StatusRequestEntityTooLarge, "The form is too large, so nothing was changed.", "Choose fewer items, or use the command line."}
	case err != nil:
		return problem{nethttp.StatusBadRequest, "The form cannot be read, so nothing was changed.", "Send it from its page."}
	}
	return nil
}
