package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

// limitsData is the data of the page of limits, and the answer of limits.json.
type limitsData struct {
	// Limits begin with those that are in use, if nothing is filtered and all workspaces are shown.
	Limits []limitRow `json:"limits"`
	// Unlimited are keys of items that have no limit, of a first page without a filter.
	Unlimited []operate.LimitKey `json:"keys_without_limit"`
	// After is the ID after which the next page begins. Zero if this is the last.
	After int64 `json:"next_after,omitempty"`
	// Key and Workspace are the filter, Next the URL of the next page, or empty.
	Key       string `json:"-"`
	Workspace string `json:"-"`
	Next      string `json:"-"`
	// Acting reports whether the visitor may set limits somewhere, ActsAll whether over all workspaces.
	Acting  bool `json:"-"`
	ActsAll bool `json:"-"`
	// Typed holds the refused input by field, Wrong the reason.
	Typed map[string]string `json:"-"`
	Wrong string            `json:"-"`
	// History has the changes of the filter's workspace or, without one, those of limits over all.
	History []operate.Administered `json:"-"`
}

// limitRow is a limit, and whether the visitor may change it.
type limitRow struct {
	operate.KeyLimit
	Full   bool `json:"full"`
	Acting bool `json:"-"`
}

// Hour are the plots of the last hour, of what was not always 0.
func (l limitRow) Hour() []view.Plot {
	use, waiting := view.KeyLimitHistory(l.KeyLimit, time.Now())
	return slices.DeleteFunc([]view.Plot{use, waiting}, func(p view.Plot) bool { return p.Most == 0 })
}

func (v visit) limits(r *http.Request) (string, any, error) {
	d, filter, err := v.limitsFound(r)
	return "limits", later(func() (any, error) { return v.readLimits(r, d, filter) }), err
}

// limitsJSON answers with the limits as JSON, in pages of the parameter after.
func (v visit) limitsJSON(w http.ResponseWriter, r *http.Request) {
	d, err := v.limitsData(r)
	if err != nil {
		v.answer(w, r, "", "", nil, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(d) // the client is gone
}

func (v visit) limitsData(r *http.Request) (limitsData, error) {
	d, filter, err := v.limitsFound(r)
	if err != nil {
		return d, err
	}
	return v.readLimits(r, d, filter)
}

// limitsFound returns the page of limits without them, and which these are.
func (v visit) limitsFound(r *http.Request) (d limitsData, filter operate.KeyLimitFilter, err error) {
	query := r.URL.Query()
	d = limitsData{Key: query.Get("key"), Workspace: query.Get("workspace"), Acting: v.acts.any(), ActsAll: v.acts.all,
		Limits: []limitRow{}, Unlimited: []operate.LimitKey{}, Typed: map[string]string{}}
	if err := errors.Join(checkText("key", d.Key), checkText("workspace", d.Workspace)); err != nil {
		return d, filter, err
	}
	filter.Key = d.Key
	if after := query.Get("after"); after != "" {
		if filter.After, err = strconv.ParseInt(after, 10, 64); err != nil {
			return d, filter, bad("after must be the ID of a limit.")
		}
	}
	if d.Workspace != "" {
		filter.WorkspaceID, err = v.workspaceNamed(r, d.Workspace)
	}
	return d, filter, err
}

func (v visit) readLimits(r *http.Request, d limitsData, filter operate.KeyLimitFilter) (_ limitsData, err error) {
	var limits []operate.KeyLimit
	if limits, d.After, err = v.Read.Limits(r.Context(), filter, pageSize); err != nil {
		return d, err
	}
	for _, l := range limits {
		d.Limits = append(d.Limits, limitRow{l, l.Full(), v.acts.in(l.WorkspaceID)})
	}
	if d.After > 0 {
		d.Next = with(r.URL, "after", strconv.FormatInt(d.After, 10))
	}
	subject := "limits"
	if filter.WorkspaceID != "" {
		subject = "workspace " + filter.WorkspaceID
	}
	if d.History, err = v.Read.Audit(r.Context(), operate.AuditFilter{Subject: subject}, historyShown); err != nil {
		return d, err
	}
	if filter == (operate.KeyLimitFilter{}) {
		d.Unlimited, err = v.Read.UnlimitedKeys(r.Context(), pageSize)
	}
	return d, err
}

// workspaceNamed returns the ID of a workspace given by its ID or unique name.
func (v visit) workspaceNamed(r *http.Request, idOrName string) (string, error) {
	found, err := v.Read.FindWorkspaces(r.Context(), idOrName)
	switch {
	case err != nil:
		return "", err
	case len(found) == 0:
		return "", noSuchWorkspace
	case len(found) > 1:
		return "", bad(view.Counted(len(found), "workspace") + " have this name: use the ID.")
	}
	return found[0].ID, nil
}

// findLimit reads the limit named by the path, which the visitor may change.
func (v visit) findLimit(r *http.Request) (operate.KeyLimit, error) {
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil || id < 1 {
		return operate.KeyLimit{}, bad("A limit is identified by its ID.")
	}
	found, err := v.Read.KeyLimits(r.Context(), operate.KeyLimitFilter{ID: id}, 1)
	switch {
	case err != nil:
		return operate.KeyLimit{}, err
	case len(found) == 0:
		return operate.KeyLimit{}, problem{http.StatusNotFound, "Limit not found.",
			"It may have been removed. See the list of limits."}
	case !v.acts.in(found[0].WorkspaceID):
		if v.acts.any() && found[0].WorkspaceID == "" {
			return operate.KeyLimit{}, ofAll
		}
		return operate.KeyLimit{}, onlyViewed
	}
	return found[0], nil
}

// setKeyLimit sets or adds the limit of a key, from the fields key, workspace (empty: over all), max and rates. Fields
// that are not sent stay as they are.
func (v visit) setKeyLimit(r *http.Request, who string) (next, error) {
	key, workspace := r.PostForm.Get("key"), r.PostForm.Get("workspace")
	patch, err := operate.ReadTerms(operate.KeyTerms, "%[2]w", func(field string) (string, bool) {
		return orNothing(r, field, "off"), r.PostForm.Has(field)
	})
	if err := errors.Join(operate.CheckKey(key), checkText("workspace", workspace), err); err != nil {
		d, failed := v.limitsData(r)
		for _, field := range []string{"key", "workspace", "max", "rates"} {
			d.Typed[field] = r.PostForm.Get(field)
		}
		d.Wrong = fmt.Sprintf("Nothing was changed: %s.", err)
		return next{}, orShown(failed, "limits", d)
	}
	if workspace != "" {
		id, err := v.workspaceNamed(r, workspace)
		if err != nil {
			return next{}, err
		}
		workspace = id
	}
	if !v.acts.in(workspace) {
		if workspace == "" {
			return next{}, ofAll
		}
		return next{}, onlyViewed
	}
	return v.changeLimit(r, operate.KeyLimit{WorkspaceID: workspace, Key: key}, patch, "limits set", who)
}

func (v visit) pauseLimit(paused bool) change {
	command := "limits resume"
	if paused {
		command = "limits pause"
	}
	return func(r *http.Request, who string) (next, error) {
		l, err := v.findLimit(r)
		if err != nil {
			return next{}, err
		}
		return v.changeLimit(r, l, operate.Patch{"paused": paused}, command, who)
	}
}

func (v visit) changeLimit(r *http.Request, l operate.KeyLimit, patch operate.Patch, command,
	who string) (next, error) {
	changed, err := v.Change.SetKeyLimit(r.Context(), l.WorkspaceID, l.Key, patch, command, who)
	then := next{to: Prefix + "limits", done: "changed"}
	if len(changed) == 0 {
		then.done = "same"
	}
	return then, err
}

func (v visit) confirmRemoveLimit(r *http.Request) (string, any, error) {
	l, err := v.findLimit(r)
	return "confirm", confirmation{
		Heading: "Remove the limit of " + view.KeyLimitName(l) + "?",
		What: []string{view.AtLeast(l.Waiting, l.WaitingExact) + " waiting items with this key then start without it, as " +
			"other limits allow. Items keep their keys."},
		To: limitPath(l) + "/remove", Button: "Remove the limit", Back: Prefix + "limits", Destroys: true,
	}, err
}

func limitPath(l operate.KeyLimit) string { return Prefix + "limits/" + strconv.FormatInt(l.ID, 10) }

func (v visit) removeLimit(r *http.Request, who string) (next, error) {
	l, err := v.findLimit(r)
	if err != nil {
		return next{}, err
	}
	_, err = v.Change.RemoveKeyLimit(r.Context(), l.WorkspaceID, l.Key, who)
	return next{to: Prefix + "limits", done: "removed"}, err
}
