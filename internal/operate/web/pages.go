package web

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

const (
	// pageSize is the maximum number of rows of a list, groupsShown that of groups of dead letters.
	pageSize    = 50
	groupsShown = 100
	// paramsShown is the maximum number of bytes of an item's params on its page.
	paramsShown = 64 << 10
	// maxText is the maximum length of a search text in bytes.
	maxText = 200
)

var statuses = []string{"PENDING", "UNANSWERED", "CLAIMED", "DISPATCHED", "COMPLETED", "FAILED", "CANCELLED"}

func (s *Site) overview(r *http.Request) (string, any, error) {
	seen, err := s.glance(r.Context())
	if err == nil {
		seen, err = s.withPeriod(r, seen)
	}
	return "overview", seen, err
}

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
	if d.Rows, err = s.Read.ListWorkspaces(r.Context(), d.Search, d.Sort, after, pageSize); err != nil {
		return "", nil, err
	}
	if len(d.Rows) == pageSize {
		d.Next = with(r.URL, "after", formatKey(d.Rows[pageSize-1].Key()))
	}
	return "workspaces", d, nil
}

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

// inTemporal returns the URL of an item's workflow in Temporal's web interface. It is empty if TemporalUI is not set or
// the item has no known run.
func (s *Site) inTemporal(i operate.Item) string {
	if s.TemporalUI == "" || i.Namespace == "" || i.RunID == "" {
		return ""
	}
	return strings.TrimRight(s.TemporalUI, "/") + "/namespaces/" + url.PathEscape(i.Namespace) + "/workflows/" +
		url.PathEscape(i.WorkflowID()) + "/" + url.PathEscape(i.RunID)
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

func (v visit) item(r *http.Request) (string, any, error) {
	item, err := v.findItem(r)
	if err != nil {
		return "", nil, err
	}
	d, err := v.itemData(r, item)
	return "item", d, err
}

// params sends an item's params unchanged, as a file.
func (s *Site) params(w http.ResponseWriter, r *http.Request) {
	item, err := s.findItem(r)
	if err != nil {
		s.answer(w, r, "", nil, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="params-%d.json"`, item.ID))
	_, _ = w.Write(item.Params)
}

// findItem reads the item named by the path: by its number, its execution's ID or its workflow's ID.
func (s *Site) findItem(r *http.Request) (operate.Item, error) {
	ref := temporal.TrimID(r.PathValue("id"))
	ids, executions := []int64{}, []string{}
	if id, err := strconv.ParseInt(ref, 10, 64); err == nil {
		ids = append(ids, id)
	} else if operate.IsUUID(ref) {
		executions = append(executions, ref)
	} else {
		return operate.Item{}, bad("An item is identified by its number, its execution's ID or its workflow's ID.")
	}
	items, err := s.Read.Items(r.Context(), ids, executions, true)
	if err != nil {
		return operate.Item{}, err
	}
	if len(items) == 0 {
		return operate.Item{}, noSuchItem
	}
	return items[0], nil
}

func (s *Site) dead(r *http.Request) (string, any, error) {
	groups, err := s.Read.DeadGroups(r.Context(), groupsShown)
	return "dead", deadData{Groups: groups, Bar: letterBar()}, err
}

func bad(what string) problem {
	return problem{http.StatusBadRequest, what, "Correct the address, or start again from the links above."}
}

// checkText refuses text that is too long or has unprintable characters.
func checkText(name, text string) error {
	if len(text) > maxText || view.Printable(text) != text {
		return bad(name + " must be text of up to 200 characters, without control characters.")
	}
	return nil
}

// with returns the URL with one query parameter replaced.
func with(u *url.URL, name, value string) string {
	query := u.Query()
	query.Set(name, value)
	return u.Path + "?" + query.Encode()
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
