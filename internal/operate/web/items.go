package web

import (
	"cmp"
	"context"
	"fmt"
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

var statuses = []string{"PENDING", "UNANSWERED", "CLAIMED", "DISPATCHED", "COMPLETED", "FAILED", "CANCELLED"}

// itemsData is the data of the list of items.
type itemsData struct {
	Status string
	narrow
	Bar      filterBar
	Page     operate.ItemPage
	Next     string
	Rows     []listed
	Filtered bool
	Acting   bool
	Tabs     []tab
}

// narrow holds the filters that all lists of items share, as typed.
type narrow struct{ Workspace, Definition, Error, Since, Until string }

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

// period returns the start and the end of the time range. The zero value means no limit.
func (f narrow) period() (since, until operate.Moment) {
	since, _ = age("since", f.Since) // readNarrow refuses what is wrong
	until, _ = age("until", f.Until)
	return since, until
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
	d.Filtered = d.Status != "" || d.narrow != narrow{}
	filter, workspaces, err := v.itemFilter(r, d)
	if err != nil {
		return "", nil, err
	}
	counts, err := v.counts(r.Context(), d.narrow, workspaces)
	if err != nil {
		return "", nil, err
	}
	d.Tabs = d.tabs(r, counts)
	if workspaces == nil || len(workspaces) > 0 { // some match the name
		d.Page, err = v.Read.ListItems(r.Context(), filter, d.Status, workspaces, d.Definition, pageSize)
		if err != nil {
			return "", nil, err
		}
	}
	d.Rows = v.listed(d.Page.Items)
	if d.Page.Next != 0 {
		d.Next = with(r.URL, "before", strconv.FormatInt(d.Page.Next, 10))
	}
	return "items", d, nil
}

// itemFilter reads the filter from the URL. A nil list of workspaces means no filter. An empty list means that none has
// the name.
func (s *Site) itemFilter(r *http.Request, d itemsData) (f operate.ItemFilter, workspaces []string, err error) {
	f.Error = d.Error
	f.Since, f.Until = d.period()
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
}

func (s *Site) listed(items []operate.Item) []listed {
	rows := make([]listed, len(items))
	for n, item := range items {
		rows[n] = listed{item, s.inTemporal(item)}
	}
	return rows
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
		t := tab{Name: status, Status: status, To: Prefix + "items?" + query.Encode(), Current: d.Status == status,
			Count: counts[status]}
		if status == "" {
			t.Name = "ALL"
		}
		all = append(all, t)
	}
	return all
}

// counts returns how many items have each status, in words, of all workspaces or of the only one that the filter names.
// It is nil with any other filter.
func (s *Site) counts(ctx context.Context, f narrow, workspaces []string) (map[string]string, error) {
	if f != (narrow{Workspace: f.Workspace}) || f.Workspace != "" && len(workspaces) != 1 {
		return nil, nil
	}
	words := map[string]string{}
	if f.Workspace != "" {
		w, _, err := s.Read.WorkspaceDetail(ctx, workspaces[0])
		if err != nil {
			return nil, err
		}
		words["UNANSWERED"] = view.Number(w.Unanswered)
		for status, n := range map[string]int64{"PENDING": w.Waiting, "CLAIMED": w.Claimed, "DISPATCHED": w.Running} {
			words[status] = view.AtMost(n, operate.CountLimit)
		}
	} else {
		seen, err := s.totals(ctx)
		if err != nil {
			return nil, err
		}
		d := seen.Depth
		for status, n := range map[string]int64{"PENDING": d.Pending, "UNANSWERED": d.Unanswered, "CLAIMED": d.Claimed,
			"DISPATCHED": d.Dispatched} {
			words[status] = countWords(s.confined, n)
		}
	}
	ended, err := s.Read.EndedItems(ctx, workspaces)
	for _, e := range ended {
		words[e.Status] = view.Ended(e)
	}
	return words, err
}

// selected are the actions on the items selected in a list.
var selected = map[string]bulkVerb{
	"cancel": {"cancel", "cancelled", "Each is never started. Items that are claimed, running or unanswered are skipped.",
		func(on Changer, ctx context.Context, items []int64, who string) (int, error) {
			done, err := on.CancelItems(ctx, items, who)
			return len(done), err
		}},
	"retry": {"retry", "due now", "Each is due now, under the usual limits. Items that do not wait are skipped.",
		func(on Changer, ctx context.Context, items []int64, who string) (int, error) {
			done, err := on.RetryItems(ctx, items, who)
			return len(done), err
		}},
	"replay": replay,
}

// askSelected asks for confirmation of an action on the selected items.
func (v visit) askSelected(r *http.Request) (string, any, error) {
	query := r.URL.Query()
	verb, known := selected[query.Get("do")]
	if !known {
		return "", nil, bad("do must be cancel, retry or replay.")
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
	texts := []string{}
	for _, id := range slices.Compact(ids) {
		texts = append(texts, strconv.FormatInt(id, 10))
	}
	name, count := strings.ToUpper(verb.name[:1])+verb.name[1:], counted(len(texts), "item")
	return "confirm", confirmation{
		Heading: fmt.Sprintf("%s %s?", name, count), What: []string{verb.what},
		To: Prefix + "items/selected/" + verb.name, Button: name + " " + count, Back: Prefix + "items",
		Items: strings.Join(texts, ","), Newest: v.listed(items),
	}, nil
}
