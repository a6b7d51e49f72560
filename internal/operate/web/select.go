package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

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

// suggestionsShown is how many names are suggested.
const suggestionsShown = 10

// suggest answers with values of a filter, one a line: those that begin as typed, or parts of recent errors that
// contain what is typed. Definitions are those of one workspace.
func (s *Site) suggest(w http.ResponseWriter, r *http.Request) {
	names, err := s.suggestions(r)
	if err != nil {
		s.answer(w, r, "", nil, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprint(w, strings.Join(names, "\n"))
}

func (s *Site) suggestions(r *http.Request) (names []string, err error) {
	typed, workspace := r.URL.Query().Get("q"), r.URL.Query().Get("workspace")
	if err := checkText("q", typed); err != nil {
		return nil, err
	}
	if err := checkText("workspace", workspace); err != nil {
		return nil, err
	}
	of := r.URL.Query().Get("of")
	switch of {
	case "status":
		return beginning(statuses, strings.ToUpper(typed)), nil
	case "since", "until":
		return beginning(suggestedAges, typed), nil
	}
	if of == "error" {
		errors, err := s.Read.CompleteErrors(r.Context(), typed, suggestionsShown)
		return slices.DeleteFunc(errors, func(text string) bool { return checkText("error", text) != nil }), err
	}
	if of == "workspace" {
		found, err := s.Read.CompleteWorkspaces(r.Context(), typed, suggestionsShown)
		for _, w := range found {
			names = append(names, w.Name)
		}
		return names, err
	}
	found, err := s.Read.FindWorkspaces(r.Context(), workspace)
	if err != nil || len(found) != 1 {
		return nil, err
	}
	return s.Read.CompleteDefinitions(r.Context(), found[0].ID, typed, suggestionsShown)
}

func beginning(all []string, typed string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(one string) bool { return !strings.HasPrefix(one, typed) })
}

// whyWaiting says why an item waits. It is empty if it does not wait, or if its workspace is gone.
func (v visit) whyWaiting(ctx context.Context, item operate.Item) (string, error) {
	if item.Status != "PENDING" || item.Unanswered {
		return "", nil
	}
	settings, err := v.Read.Settings(ctx)
	if err != nil {
		return "", err
	}
	w, found, err := v.Read.WorkspaceDetail(ctx, item.WorkspaceID)
	if err != nil || !found {
		return "", err
	}
	keys, err := v.Read.KeyLimitsOf(ctx, item.WorkspaceID, item.LimitKey)
	if err != nil {
		return "", err
	}
	ahead, err := v.Read.Ahead(ctx, item.ID)
	return view.Waits(item, w.Workspace, keys, ahead, settings), err
}
