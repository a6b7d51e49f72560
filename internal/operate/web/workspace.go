package web

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

// workspacesData is the data of the list of workspaces.
type workspacesData struct {
	Search string
	Sort   operate.WorkspaceOrder
	Rows   []operate.WorkspaceRow
	Next   string // URL of the next page, or empty
	First  bool
	// Confined reports whether the search is among a visitor's workspaces only. It then examines all of them.
	Confined bool
}

// NamesSearched and WorkspacesFound bound a search; see operate.Store.ListWorkspaces.
func (workspacesData) NamesSearched() int { return operate.NamesSearched }

// WorkspacesFound is the number of workspaces that a search finds.
func (workspacesData) WorkspacesFound() int { return operate.WorkspacesFound }

func (s *Site) workspaces(r *http.Request) (string, any, error) {
	query := r.URL.Query()
	d := workspacesData{Search: query.Get("q"), Sort: operate.WorkspaceOrder(query.Get("sort")),
		First: query.Get("after") == "", Confined: s.confined}
	if !slices.Contains([]operate.WorkspaceOrder{operate.ByName, operate.ByRunning, operate.ByFailures}, d.Sort) {
		d.Sort = operate.ByOldest
	}
	if err := checkText("q", d.Search); err != nil {
		return "", nil, err
	}
	after, err := parseKey(query.Get("after"))
	if err != nil {
		return "", nil, err
	}
	return "workspaces", later(func() (any, error) {
		d.Rows, err = s.Read.ListWorkspaces(r.Context(), d.Search, d.Sort, after, pageSize)
		if len(d.Rows) == pageSize {
			d.Next = with(r.URL, "after", formatKey(d.Rows[pageSize-1].Key()))
		}
		return d, err
	}), nil
}

// formatKey encodes the end of a page of workspaces for a URL.
func formatKey(k operate.WorkspaceKey) string {
	text := strconv.FormatFloat(k.Rank, 'g', -1, 64) + "\n" + k.ID + "\n" + k.Name
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

func parseKey(text string) (*operate.WorkspaceKey, error) {
	if text == "" {
		return nil, nil
	}
	decoded, err := base64.RawURLEncoding.DecodeString(text)
	parts := strings.SplitN(string(decoded), "\n", 3)
	// not possible in Postgres
	if err != nil || len(parts) != 3 || !operate.IsUUID(parts[1]) || !utf8.ValidString(parts[2]) ||
		strings.Contains(parts[2], "\x00") {
		return nil, bad("after is not a valid position in the list of workspaces.")
	}
	rank, err := strconv.ParseFloat(parts[0], 64)
	if err != nil {
		return nil, bad("after is not a valid position in the list of workspaces.")
	}
	return &operate.WorkspaceKey{Rank: rank, ID: parts[1], Name: parts[2]}, nil
}

const (
	// historyShown is the maximum number of changes on a page, newestShown that of items.
	historyShown = 20
	newestShown  = 10
	// definitionsShown is the maximum number of definitions on a workspace's page.
	definitionsShown = 100
)

// workspaceData is the data of a workspace's page.
type workspaceData struct {
	operate.WorkspaceDetail
	Acting      bool
	Plans       []operate.Plan
	Definitions []operate.Definition
	// MoreDefinitions reports whether there are more than are shown.
	MoreDefinitions bool
	Items           operate.ItemPage
	Rows            []listed // of Items
	History         []operate.Administered
	// Charted are the plots of Period, Totals what they add up to, BarMinutes the minutes of a bar. Nil if nothing
	// happened.
	Charted    *charted
	Period     period
	Totals     string
	BarMinutes int
	// Typed holds the forms' values by field: the current value, or the refused input. Wrong holds why it was refused.
	Typed, Wrong map[string]string
}

// Self is the page's path, for the links to periods.
func (d workspaceData) Self() string { return Prefix + "workspaces/" + d.ID }

// Anchored reports whether the links to periods lead to the plots.
func (workspaceData) Anchored() bool { return true }

// Listed has the newest items for the table, without checkboxes.
func (d workspaceData) Listed() itemsData { return itemsData{Rows: d.Rows} }

func (v visit) workspace(r *http.Request) (string, any, error) {
	d, err := v.workspaceFound(r)
	return "workspace", later(func() (any, error) { return v.workspaceData(r.Context(), d) }), err
}

// findWorkspace reads the workspace named by the path.
func (v visit) findWorkspace(r *http.Request) (operate.WorkspaceDetail, error) {
	id := r.PathValue("id")
	if !operate.IsUUID(id) {
		return operate.WorkspaceDetail{}, bad("A workspace is identified by its ID.")
	}
	w, found, err := v.Read.WorkspaceDetail(r.Context(), id)
	if err == nil && !found {
		err = noSuchWorkspace
	}
	return w, err
}

// workspaceFound returns what decides whether a workspace's page can be shown.
func (v visit) workspaceFound(r *http.Request) (d workspaceData, err error) {
	if d.Period, err = periodOf(r); err == nil {
		d.WorkspaceDetail, err = v.findWorkspace(r)
	}
	return d, err
}

// workspaceData adds the rest.
func (v visit) workspaceData(ctx context.Context, d workspaceData) (_ workspaceData, err error) {
	if d, err = v.withActivity(ctx, d); err != nil {
		return d, err
	}
	if d.Definitions, err = v.Read.Definitions(ctx, d.ID, definitionsShown+1); err != nil {
		return d, err
	}
	d.MoreDefinitions = len(d.Definitions) > definitionsShown
	d.Definitions = d.Definitions[:min(len(d.Definitions), definitionsShown)]
	if d.Items, err = v.Read.ListItems(ctx, operate.ItemFilter{}, "", []string{d.ID}, "", newestShown); err != nil {
		return d, err
	}
	if d.Rows, err = v.listed(ctx, d.Items.Items); err != nil {
		return d, err
	}
	if d.History, err = v.Read.Audit(ctx, operate.AuditFilter{Subject: "workspace " + d.ID}, historyShown); err != nil {
		return d, err
	}
	if d.Acting = v.acts.in(d.ID); d.Acting {
		d.Plans, err = v.Read.Plans(ctx)
	}
	d.Typed, d.Wrong = map[string]string{"plan": d.Plan}, map[string]string{}
	for field, n := range map[string]*int{"limit": d.MaxConcurrentWorkflows, "burst": d.MaxBurstWorkflows} {
		if n != nil {
			d.Typed[field] = strconv.Itoa(*n)
		}
	}
	if d.MaxStartsPerSecond != nil {
		d.Typed["rate"] = strconv.FormatFloat(*d.MaxStartsPerSecond, 'g', -1, 64)
	}
	return d, err
}

func (v visit) pauseWorkspace(paused bool) change {
	command := "workspaces resume"
	if paused {
		command = "workspaces pause"
	}
	return func(r *http.Request, who string) (next, error) {
		return v.changeWorkspace(r, who, command, operate.Patch{"paused": paused})
	}
}

func (v visit) setPlan(r *http.Request, who string) (next, error) {
	plans, err := v.Read.Plans(r.Context())
	if err != nil {
		return next{}, err
	}
	c, err := operate.PlanPatch(plans, r.PostForm.Get("plan"))
	return v.changeTyped(r, who, "plan", c, err)
}

// setTerm changes what the form's field says. nothing is the command line's word for an empty one.
func (v visit) setTerm(field, nothing string, parse func(string) (operate.Patch, error)) change {
	return func(r *http.Request, who string) (next, error) {
		c, err := parse(orNothing(r, field, nothing))
		return v.changeTyped(r, who, field, c, err)
	}
}

// orNothing returns the input, or nothing, the command line's word for an empty field. A missing field is not an empty
// field.
func orNothing(r *http.Request, field, nothing string) string {
	if r.PostForm.Has(field) && r.PostForm.Get(field) == "" {
		return nothing
	}
	return r.PostForm.Get(field)
}

// changeTyped applies the change. If wrong is not nil, it shows the page again with the input and the reason.
func (v visit) changeTyped(r *http.Request, who, field string, patch operate.Patch,
	wrong error) (next, error) {
	if wrong == nil {
		return v.changeWorkspace(r, who, "workspaces set-"+field, patch)
	}
	d, err := v.workspaceFound(r)
	if err == nil {
		d, err = v.workspaceData(r.Context(), d)
	}
	if err != nil {
		return next{}, err
	}
	d.Typed[field], d.Wrong[field] = r.PostForm.Get(field), fmt.Sprintf("Nothing was changed: %s.", wrong)
	return next{}, shown{http.StatusUnprocessableEntity, "workspace", d}
}

func (v visit) changeWorkspace(r *http.Request, who, command string, patch operate.Patch) (next, error) {
	w, err := v.findWorkspace(r)
	if err == nil && !v.acts.in(w.ID) {
		err = onlyViewed
	}
	if err != nil {
		return next{}, err
	}
	changed, err := v.Change.ChangeWorkspace(r.Context(), w.ID, patch, command, who)
	then := next{to: Prefix + "workspaces/" + w.ID, done: "changed"}
	if len(changed) == 0 {
		then.done = "same"
	}
	return then, err
}
