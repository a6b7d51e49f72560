package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/signin"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

// Changer makes the changes. Each writes who requested it into the log of changes, in the same statement.
type Changer interface {
	ChangeWorkspace(ctx context.Context, id string, patch operate.Patch, command, who string) (operate.Change, error)
	SetKeyLimit(ctx context.Context, workspaceID, key string, patch operate.Patch, command, who string) (operate.Change,
		error)
	RemoveKeyLimit(ctx context.Context, workspaceID, key, who string) (bool, error)
	ChangeSettings(ctx context.Context, patch operate.Patch, who string) (operate.SettingsChange, error)
	CancelItems(ctx context.Context, items []int64, who string) ([]int64, error)
	RetryItems(ctx context.Context, items []int64, who string) ([]int64, error)
	GiveUpItems(ctx context.Context, items []int64, who string) ([]int64, error)
	GiveUpExecutions(ctx context.Context, items []int64, who string) ([]int64, error)
	RequestStop(ctx context.Context, stop temporal.Stop) (string, error)
	Replay(ctx context.Context, executionID, who string) (operate.Replay, error)
	ReplayAll(ctx context.Context, items []int64, who string) ([]operate.Replayed, error)
	Discard(ctx context.Context, items []int64, who string) ([]int64, error)
	SendSignal(ctx context.Context, executionID, name, payload, who string) (int64, error)
	ResendSignal(ctx context.Context, id int64, executionID, who string) (operate.Resent, bool, error)
}

// maxBody is the maximum size of a form in bytes. The IDs of bulkMost items fit.
const maxBody = 256 << 10

// visit is the site for visitors with the same rights.
type visit struct {
	*Site
	acts acting
}

// Acting returns the pages below Prefix with the forms that make changes. It does no authentication. Because a browser
// sends the password with every request, it refuses requests that come from other sites. For visitors see Handler.
func (s *Site) Acting() http.Handler { return s.byVisitor(s.forms(acting{all: true})) }

func (s *Site) forms(in acting) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(s.page(func(*http.Request) (string, any, error) {
		return "", nil, problem{http.StatusForbidden, "Nothing was changed: the request came from another site.",
			"Open the page at this address and try again."}
	}))
	mux := visit{s, in}.actRoutes().mux()
	return withHeaders(protection.Handler(http.MaxBytesHandler(mux, maxBody)))
}

// actRoutes are those of visitors who may make changes.
func (v visit) actRoutes() routes {
	all := v.routes()
	for path, of := range v.questions() {
		all["GET "+Prefix+path] = v.page(of)
	}
	for path, do := range map[string]change{
		"workspaces/{id}/pause": v.pauseWorkspace(true), "workspaces/{id}/resume": v.pauseWorkspace(false),
		"workspaces/{id}/plan":  v.setPlan,
		"workspaces/{id}/limit": v.setTerm("limit", "plan", operate.LimitPatch),
		"workspaces/{id}/burst": v.setTerm("burst", "plan", operate.BurstPatch),
		"workspaces/{id}/rate":  v.setTerm("rate", "off", operate.RatePatch),
		"items/{id}/cancel":     v.actOn(cancel, "cancelled"), "items/{id}/retry": v.actOn(retry, "retried"),
		"items/{id}/give-up": v.actOn(giveUp, "given-up"),
		"items/{id}/replay":  v.replayItem, "items/{id}/discard": v.actOn(discard, "discarded"),
		"items/{id}/resend": v.resendSignal, "items/{id}/signal": v.sendSignal,
		"items/{id}/request-cancel": v.requestCancel, "items/{id}/terminate": v.terminate,
		"dead/replay": v.bulk(replay, "dead letter"), "dead/discard": v.bulk(discard, "dead letter"),
		"limits/set": v.setKeyLimit, "limits/{id}/pause": v.pauseLimit(true), "limits/{id}/resume": v.pauseLimit(false),
		"limits/{id}/remove": v.removeLimit,
		"settings/pause":     v.pauseAll(true), "settings/resume": v.pauseAll(false), "settings/max-claims": v.setMaxClaims,
	} {
		all["POST "+Prefix+path] = v.act(do)
	}
	for name, verb := range verbs {
		all["POST "+Prefix+"items/selected/"+name] = v.act(v.bulk(verb, "item"))
	}
	return all
}

// questions are the pages that ask for confirmation.
func (v visit) questions() map[string]handler {
	return map[string]handler{
		"items/selected": v.askSelected, "items/{id}/terminate": v.confirmTerminate, "items/{id}/discard": v.confirmDiscard,
		"items/{id}/give-up": v.confirmGiveUp,
		"dead/replay":        v.dryRun(replay), "dead/discard": v.dryRun(discard), "settings/pause": v.confirmPause,
		"limits/{id}/remove": v.confirmRemoveLimit,
	}
}

func readOnly(r *http.Request) (string, any, error) {
	remedy := "To act, sign in with `PGDISPATCH_ADMIN_TOKEN` as the password. The replica must have one configured."
	if _, known := signin.From(r.Context()); known {
		remedy = "To act, ask for a group that has the role operator."
	}
	return "", nil, problem{http.StatusForbidden, "Nothing was changed: these pages are read-only.", remedy}
}

// change carries out a form and returns where to redirect to.
type change func(r *http.Request, who string) (next, error)

type next struct {
	to, done string // an address to redirect to, and a key of doneWords or verbs
	// count and left are how many items a bulk change has changed, and left unchanged.
	count, left int
}

// address returns the address that says what was done.
func (n next) address() string {
	path, text, _ := strings.Cut(n.to, "?")
	query, _ := url.ParseQuery(text) // what cannot be read is left out
	query.Set(doneParameter, n.done)
	if n.count > 0 || n.left > 0 {
		query.Set(countParameter, strconv.Itoa(n.count))
		query.Set(leftParameter, strconv.Itoa(n.left))
	}
	return path + "?" + query.Encode()
}

// The parameters of the address that a change redirects to.
const doneParameter, countParameter, leftParameter = "done", "count", "left"

// noticeOf says what a change did. No other text can be shown by an address.
func noticeOf(query url.Values) string {
	count, _ := strconv.Atoi(query.Get(countParameter))
	left, _ := strconv.Atoi(query.Get(leftParameter))
	verb, bulk := verbs[query.Get(doneParameter)]
	if !bulk || count < 0 {
		return doneWords[query.Get(doneParameter)]
	}
	text := view.Counted(count, "item") + " " + verb.past + "."
	if left > 0 {
		text += fmt.Sprintf(" %s unchanged: already handled by someone else, of a workspace that you may not act in, or "+
			"of a deleted definition.", view.Counted(left, "other"))
	}
	return text
}

// doneWords are the only texts that a URL can make a page show.
var doneWords = map[string]string{
	"changed":   "Done. It applies from the next claim.",
	"same":      "Nothing was changed: it already had this value.",
	"cancelled": "Cancelled. It will not be started.",
	"retried":   "It is due now. The usual limits apply.",
	"requested": "Requested. A replica will carry it out.",
	"before":    "Nothing was changed: this was requested before.",
	"replayed":  "Replayed as a new item.",
	"discarded": "Discarded. It is no longer listed.",
	"given-up":  "Given up. A replica asks Temporal for its workflow, and ends it if there is none.",
	"removed":   "Removed. Its items start without it from the next claim.",
	"resent":    "The signal was sent again. A replica will deliver it.",
	"sent":      "The signal was sent. A replica will deliver it.",
}

// act carries out a form in the sender's name and then redirects, so that reloading the result does not repeat the
// change. A change that has begun is completed even if the client disconnects.
func (v visit) act(do change) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		who, err := whoSent(r)
		if err == nil {
			err = readForm(r)
		}
		var then next
		if err == nil {
			then, err = do(r.WithContext(context.WithoutCancel(r.Context())), who)
		}
		v.forget()
		if err != nil {
			v.answer(w, r, "", "", nil, v.refused(r, err, who))
			return
		}
		v.redirect(w, r, then.address())
		v.Log.InfoContext(r.Context(), "Changed in the web view", "path", r.URL.Path, "who", who)
	}
}

// refused explains a change that Postgres or pgdispatch's functions refused. Each statement is applied completely or
// not at all.
func (v visit) refused(r *http.Request, err error, who string) error {
	if errors.Is(err, operate.ErrAll) {
		return ofAll
	}
	if postgres.IsForbidden(err) {
		v.Log.WarnContext(r.Context(), "Postgres denied a change in the web view", "path", r.URL.Path, "who", who, "error",
			err)
		return problem{http.StatusForbidden, "Nothing was changed: this replica's Postgres role may not make this change.",
			"Set `PGDISPATCH_OPERATOR_DATABASE_URL` to connect as a role that may, such as a member of `pgdispatch_operator`, " +
				"or use the command line."}
	}
	if what, remedy, is := postgres.Refusal(err); is {
		return problem{http.StatusConflict, "Nothing was changed: " + what + ".", remedy}
	}
	return err
}

// whoSent returns who sends a request, for the log of changes. The name that was sent with a token counts only if no
// proxy or session says who the visitor is: such a visitor could send any name with a wrong token.
func whoSent(r *http.Request) (string, error) {
	who := "web"
	if visitor, known := signin.From(r.Context()); known {
		who = visitor.Name + " (web, " + visitor.Via + ")"
	} else if name, _, basic := r.BasicAuth(); basic && name != "" {
		who = name + " (web)"
	}
	if !operate.ValidWho(who) {
		return "", problem{http.StatusBadRequest,
			"Nothing was changed: the log of changes cannot store the name sent with the token.",
			"Sign in with a name of at most 194 characters, without control characters."}
	}
	return who, nil
}

func readForm(r *http.Request) error {
	err := r.ParseForm()
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return problem{http.StatusRequestEntityTooLarge, "Nothing was changed: the form is too large.",
			"Choose fewer items, or use the command line."}
	case err != nil:
		return problem{http.StatusBadRequest, "Nothing was changed: the form cannot be read.",
			"Submit the form from its page."}
	}
	return nil
}
