package web

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

// pageSize is the maximum number of rows of a list.
const pageSize = 50

var statuses = []string{"PENDING", "SCHEDULED", "UNANSWERED", "UNCERTAIN", "CLAIMED", "DISPATCHED", "MISSING",
	"COMPLETED", "FAILED", "CANCELLED"}

// itemsData is the data of the list of items.
type itemsData struct {
	Status string
	narrow
	more
	Bar      filterBar
	Page     operate.ItemPage
	Next     string
	Rows     []listed
	Filtered bool
	Acting   bool
	Tabs     []tab
	// Meant are the names that the filter may have meant, if no item matches.
	Meant []meant
	// Back is the list's address, below Prefix.
	Back string
}

// Verbs are the actions on selected items.
func (itemsData) Verbs() []bulkVerb { return []bulkVerb{retry, replay, cancel, giveUp} }

// narrow holds the filters that all lists of items share, as typed.
type narrow struct{ Workspace, Definition, Error, Since, Until string }

// more holds the filters of the list of items only, as typed.
type more struct{ Priority, Key, Params string }

func readMore(query url.Values) (m more, f operate.ItemFilter, err error) {
	m = more{query.Get("priority"), query.Get("key"), query.Get("params")}
	if f.Key = m.Key; m.Priority != "" {
		priority, wrong := strconv.Atoi(m.Priority)
		if wrong != nil || priority < -operate.MaxPriority || priority > operate.MaxPriority {
			return m, f, bad(fmt.Sprintf("priority must be a whole number from -%d to %[1]d.", operate.MaxPriority))
		}
		f.Priority = &priority
	}
	path, value, found := strings.Cut(m.Params, "=")
	if m.Params != "" && (!found || path == "") {
		return m, f, bad("params must be a field and its value, such as customer.country=SE.")
	}
	if m.Params != "" {
		f.Field, f.Value = strings.Split(path, "."), value
	}
	return m, f, cmp.Or(checkText("key", m.Key), checkText("params", m.Params))
}

func readNarrow(query url.Values) (narrow, error) {
	f := narrow{query.Get("workspace"), query.Get("definition"), query.Get("error"), query.Get("since"),
		query.Get("until")}
	for name, text := range map[string]string{"workspace": f.Workspace, "definition": f.Definition, "error": f.Error} {
		if err := checkText(name, text); err != nil {
			return f, err
		}
	}
	since, sinceErr := age("since", f.Since)
	until, untilErr := age("until", f.Until)
	if err := cmp.Or(sinceErr, untilErr); err != nil {
		return f, err
	}
	if since.Ago != nil && until.Ago != nil && *since.Ago < *until.Ago {
		return f, bad("since must be longer ago than until.")
	}
	return f, nil
}

// filter returns the filter that was typed.
func (f narrow) filter() operate.Filter {
	since, _ := age("since", f.Since) // readNarrow refuses what is wrong
	until, _ := age("until", f.Until)
	return operate.Filter{Workspace: f.Workspace, Definition: f.Definition, Error: f.Error, Since: since, Until: until}
}

// age parses how long ago something happened. Empty means no limit.
func age(name, text string) (operate.Moment, error) {
	if text == "" {
		return operate.Moment{}, nil
	}
	ago, err := time.ParseDuration(text)
	if err != nil || ago <= 0 {
		return operate.Moment{}, bad(name + " must be how long ago, such as 15m or 24h.")
	}
	return operate.Moment{Ago: &ago}, nil
}

func checkStatus(status string) error {
	if status != "" && !slices.Contains(statuses, status) {
		return bad("status must be one of " + strings.Join(statuses, ", ") + ".")
	}
	return nil
}

func (v visit) items(r *http.Request, bar filterBar) (string, any, error) {
	query := r.URL.Query()
	d := itemsData{Acting: v.acts.any(), Status: query.Get("status"), Bar: bar}
	var err error
	if d.narrow, err = readNarrow(query); err != nil {
		return "", nil, err
	}
	filter, workspaces, err := v.itemFilter(r, &d)
	if err != nil {
		return "", nil, err
	}
	return "items", later(func() (any, error) { return v.itemsData(r, d, filter, workspaces) }), nil
}

func (v visit) itemsData(r *http.Request, d itemsData, filter operate.ItemFilter, workspaces []string) (any, error) {
	d.Filtered = d.Status != "" || d.narrow != narrow{} || d.more != more{}
	counts, err := v.counts(r.Context(), d, workspaces)
	if err != nil {
		return nil, err
	}
	d.Tabs = d.tabs(r, counts)
	if workspaces == nil || len(workspaces) > 0 { // some match the name
		d.Page, err = v.Read.ListItems(r.Context(), filter, d.Status, workspaces, d.Definition, pageSize)
		if err != nil {
			return nil, err
		}
	}
	if d.Page.Next != 0 {
		d.Next = with(r.URL, "before", strconv.FormatInt(d.Page.Next, 10))
	}
	d.Back = strings.TrimPrefix(r.URL.RequestURI(), Prefix)
	if d.Rows, err = v.listed(r.Context(), d.Page.Items); len(d.Rows) == 0 && err == nil {
		d.Meant, err = v.meant(r)
	}
	return d, err
}

// itemFilter reads the filter from the URL. A nil list of workspaces means no filter. An empty list means that none has
// the name.
func (s *Site) itemFilter(r *http.Request, d *itemsData) (f operate.ItemFilter, workspaces []string, err error) {
	if d.more, f, err = readMore(r.URL.Query()); err != nil {
		return f, nil, err
	}
	f.Filter = d.filter()
	if err = checkStatus(d.Status); err != nil {
		return f, nil, err
	}
	if before := r.URL.Query().Get("before"); before != "" {
		if f.Before, err = strconv.ParseInt(before, 10, 64); err != nil || f.Before < 1 {
			return f, nil, bad("before must be the number of an item.")
		}
	}
	if d.Workspace != "" {
		found, err := s.Read.FindWorkspaces(r.Context(), d.Workspace)
		if err != nil {
			return f, nil, err
		}
		workspaces = []string{}
		for _, w := range found {
			workspaces = append(workspaces, w.ID)
		}
	}
	return f, workspaces, nil
}

// listed is an item in a table.
type listed struct {
	operate.Item
	InTemporal string // URL of its workflow in Temporal's web interface, or empty
	State      view.State
}

// Waited and Ran are durations in words.
func (l listed) Waited() string { return view.Waited(l.Item) }

// Ran is how long the item's workflow ran.
func (l listed) Ran() string { return view.Ran(l.Item) }

func (s *Site) listed(ctx context.Context, items []operate.Item) ([]listed, error) {
	holds, err := s.holds(ctx, items)
	rows := make([]listed, len(items))
	for n, item := range items {
		rows[n] = listed{item, s.inTemporal(item), view.StateOf(item, holds)}
	}
	return rows, err
}

// holds reads what holds back those of the items that are due and wait.
func (s *Site) holds(ctx context.Context, items []operate.Item) (h view.Holds, err error) {
	waiting, keys := map[string]bool{}, []string{}
	for _, i := range items {
		if i.Status == "PENDING" && !i.Unanswered && i.DueIn == 0 {
			waiting[i.WorkspaceID] = true
			if i.LimitKey != "" && !slices.Contains(keys, i.LimitKey) {
				keys = append(keys, i.LimitKey)
			}
		}
	}
	if len(waiting) == 0 {
		return h, nil
	}
	seen, err := s.standing(ctx)
	if err != nil {
		return h, err
	}
	if out := view.OutageOf(seen); out != nil {
		h.All = out.What
	}
	workspaces := slices.Collect(maps.Keys(waiting))
	if h.Keys, err = s.Read.FullLimits(ctx, workspaces, keys); err != nil {
		return h, err
	}
	h.Workspaces = map[string]operate.WorkspaceRow{}
	rows, err := s.Read.WorkspacesOf(ctx, workspaces)
	for _, row := range rows {
		h.Workspaces[row.ID] = row
	}
	return h, err
}

// tab is a status in the list of items. Count is the number of items, or empty if it is not known.
type tab struct {
	Name, Status, To, Count string

	Current bool
}

// tabs returns the statuses to choose from, with the counts in words.
func (d itemsData) tabs(r *http.Request, counts map[string]string) []tab {
	all := []tab{}
	for _, status := range append([]string{""}, statuses...) {
		query := r.URL.Query()
		query.Del("before")
		query.Set("status", status)
		all = append(all, tab{Name: view.Status(status), Status: status, To: Prefix + "items?" + query.Encode(),
			Current: d.Status == status, Count: counts[status]})
	}
	return all
}

// counts returns how many items have each status, of all workspaces or of the only one of the filter; else nil.
func (s *Site) counts(ctx context.Context, f itemsData, workspaces []string) (map[string]string, error) {
	one := len(workspaces) == 1
	if f.narrow != (narrow{Workspace: f.Workspace}) || f.more != (more{}) || f.Workspace != "" && !one {
		return nil, nil
	}
	words := map[string]string{}
	if f.Workspace != "" {
		w, _, err := s.Read.WorkspaceDetail(ctx, workspaces[0])
		if err != nil {
			return nil, err
		}
		words["PENDING"], words["UNANSWERED"] = view.AtLeast(w.Waiting, w.WaitingExact), view.Number(w.Unanswered)
		words["UNCERTAIN"] = view.Number(w.Uncertain)
		words["SCHEDULED"] = view.AtLeast(w.Scheduled, w.ScheduledExact)
		for status, n := range map[string]int64{"CLAIMED": w.Claimed, "DISPATCHED": w.Running} {
			words[status] = view.AtMost(n, operate.CountLimit)
		}
	} else {
		d, err := s.depth(ctx)
		if err != nil {
			return nil, err
		}
		words["SCHEDULED"] = view.AtLeast(d.Scheduled, d.ScheduledExact)
		for status, n := range map[string]int64{"PENDING": d.Pending, "UNANSWERED": d.Unanswered,
			"UNCERTAIN": d.Uncertain, "CLAIMED": d.Claimed, "DISPATCHED": d.Dispatched, "MISSING": d.Missing} {
			words[status] = countWords(s.confined, n)
		}
	}
	ended, err := s.Read.EndedItems(ctx, workspaces)
	for _, e := range ended {
		words[e.Status] = view.Ended(e)
	}
	return words, err
}

// askSelected asks for confirmation of an action on the selected items.
func (v visit) askSelected(r *http.Request) (string, any, error) {
	query := r.URL.Query()
	verb, known := verbs[query.Get("do")]
	if !known {
		return "", nil, bad("do must be cancel, retry, replay, discard or give-up.")
	}
	ids := []int64{}
	for _, text := range query["item"] {
		id, err := strconv.ParseInt(text, 10, 64)
		if err != nil || id < 1 || len(ids) == pageSize {
			return "", nil, bad("item must be the number of an item, up to 50 times.")
		}
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return "", nil, problem{http.StatusUnprocessableEntity, "No item is selected.",
			"Go back, and select the items first."}
	}
	items, err := v.Read.Items(r.Context(), ids, nil, false)
	if err != nil {
		return "", nil, err
	}
	if !v.acts.all {
		refusal := noSuchItem
		if len(items) > 0 {
			refusal = onlyViewed
		}
		items = slices.DeleteFunc(items, func(i operate.Item) bool { return !v.acts.in(i.WorkspaceID) })
		if ids = ids[:0]; len(items) == 0 {
			return "", nil, refusal
		}
		for _, item := range items {
			ids = append(ids, item.ID)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	count, back := view.Counted(len(ids), "item"), localPath(query.Get("back"))
	rows, err := v.listed(r.Context(), items)
	return "confirm", confirmation{
		Heading: fmt.Sprintf("%s %s?", verb.Title, count), What: []string{verb.what}, Destroys: verb.Destroys,
		To: Prefix + "items/selected/" + verb.Name, Button: verb.Title + " " + count, Back: Prefix + back,
		Items: joined(ids), Rows: rows,
	}, err
}
