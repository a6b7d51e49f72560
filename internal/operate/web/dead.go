package web

import (
	"context"
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
	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

const (
	// bulkMost is the maximum number of dead letters per form, bulkBatch the number per transaction.
	bulkMost  = 5000
	bulkBatch = 500
	// lettersLooked is how many failures a page of dead letters examines, bulkLooked how many a bulk action does.
	lettersLooked, bulkLooked = 10_000, 100_000
	// groupsShown is the maximum number of groups of dead letters.
	groupsShown = 100
	// samplesShown is how many of them the confirmation page lists.
	samplesShown = 5
)

// deadData is the data of the page of dead letters.
type deadData struct {
	Bar    filterBar
	Groups []operate.DeadGroup
}

// Looked returns how many of the newest failures are grouped.
func (deadData) Looked() int { return operate.FailuresLooked }

func (s *Site) dead(r *http.Request) (string, any, error) {
	return "dead", later(func() (any, error) {
		groups, err := s.Read.DeadGroups(r.Context(), groupsShown)
		return deadData{Groups: groups, Bar: letterBar()}, err
	}), nil
}

// letterFilter selects dead letters, either by kind or by all other filters.
type letterFilter struct {
	Kind string
	narrow
}

func readLetterFilter(query url.Values) (f letterFilter, err error) {
	f.Kind = query.Get("kind")
	if !utf8.ValidString(f.Kind) || strings.Contains(f.Kind, "\x00") {
		return f, bad("kind must be text.")
	}
	if f.narrow, err = readNarrow(query); err != nil {
		return f, err
	}
	if f.Kind != "" && f != (letterFilter{Kind: f.Kind}) {
		return f, bad("kind cannot be combined with other filters.")
	}
	return f, nil
}

// Looked returns how many of the newest failures are searched for a kind.
func (letterFilter) Looked() int { return operate.FailuresLooked }

// To returns the URL of a page for the same dead letters.
func (f letterFilter) To(page string) string {
	query := url.Values{}
	for name, value := range map[string]string{"kind": f.Kind, "workspace": f.Workspace, "definition": f.Definition,
		"error": f.Error, "since": f.Since, "until": f.Until} {
		if value != "" {
			query.Set(name, value)
		}
	}
	return Prefix + "dead/" + page + "?" + query.Encode()
}

// found are the IDs of dead letters, latest failure first. further is where to go on if not all failures were examined.
type found struct {
	letterFilter
	ids     []int64
	further *operate.DeadKey
}

// findLetters reads the filter from the URL and returns the matching open dead letters of the workspaces, starting
// after the key. With a filter other than the kind, it examines that many failures.
func (v visit) findLetters(r *http.Request, workspaces []string, after *operate.DeadKey,
	newest, atMost int) (found, error) {
	f, err := readLetterFilter(r.URL.Query())
	if err != nil {
		return found{}, err
	}
	if f.Kind != "" {
		ids, err := v.Read.DeadOfKind(r.Context(), f.Kind, workspaces, after, atMost)
		return found{f, ids, nil}, err
	}
	ids, further, err := v.Read.SearchDeadLetters(r.Context(),
		operate.DeadFilter{Filter: f.filter(), After: after, Workspaces: workspaces}, newest, atMost)
	if postgres.TookTooLong(err) {
		err = problem{http.StatusServiceUnavailable, "There are too many failures to search in time.",
			"Choose a shorter time or one workspace, or use `pgdispatch dead list`."}
	}
	return found{f, ids, further}, err
}

// lettersData is the data of a list of dead letters.
type lettersData struct {
	letterFilter
	Acting bool
	Bar    filterBar
	Rows   []listed
	Meant  []meant
	Back   string // the list's address, below Prefix
	// Examined is the number of failures that were examined if there are more, or 0.
	Examined int
	First    bool
	Next     string // URL of the next page, or empty
}

// Verbs are the actions on selected dead letters.
func (lettersData) Verbs() []bulkVerb { return []bulkVerb{replay, discard} }

func (v visit) letters(r *http.Request, bar filterBar) (string, any, error) {
	after, err := parseDeadKey(r.URL.Query().Get("after"))
	if err != nil {
		return "", nil, err
	}
	if _, err = readLetterFilter(r.URL.Query()); err != nil {
		return "", nil, err
	}
	return "letters", later(func() (any, error) { return v.lettersData(r, bar, after) }), nil
}

func (v visit) lettersData(r *http.Request, bar filterBar, after *operate.DeadKey) (any, error) {
	f, err := v.findLetters(r, nil, after, lettersLooked, pageSize+1)
	if err != nil {
		return nil, err
	}
	ids := f.ids
	d := lettersData{letterFilter: f.letterFilter, Acting: v.acts.any(), Bar: bar, First: after == nil,
		Back: strings.TrimPrefix(r.URL.RequestURI(), Prefix)}
	letters, err := v.Read.Items(r.Context(), ids[:min(len(ids), pageSize)], nil, false)
	if err != nil {
		return nil, err
	}
	if shown := len(letters); len(ids) > pageSize && shown > 0 && letters[shown-1].FinishedAt != nil {
		d.Next = with(r.URL, "after",
			formatDeadKey(operate.DeadKey{FailedAt: *letters[shown-1].FinishedAt, ID: letters[shown-1].ID}))
	} else if f.further != nil {
		d.Examined, d.Next = lettersLooked, with(r.URL, "after", formatDeadKey(*f.further))
	}
	if d.Rows, err = v.listed(r.Context(), letters); len(d.Rows) == 0 && err == nil {
		d.Meant, err = v.meant(r)
	}
	return d, err
}

// formatDeadKey encodes the end of a page of dead letters for a URL.
func formatDeadKey(k operate.DeadKey) string {
	return k.FailedAt.UTC().Format(time.RFC3339Nano) + "," + strconv.FormatInt(k.ID, 10)
}

func parseDeadKey(text string) (*operate.DeadKey, error) {
	if text == "" {
		return nil, nil
	}
	at, number, _ := strings.Cut(text, ",")
	failedAt, err := time.Parse(time.RFC3339Nano, at)
	if err != nil || failedAt.Year() < 1 { // Postgres has no year 0
		return nil, bad("after is not a valid position in the list of dead letters.")
	}
	id, err := strconv.ParseInt(number, 10, 64)
	if err != nil || id < 1 {
		return nil, bad("after is not a valid position in the list of dead letters.")
	}
	return &operate.DeadKey{FailedAt: failedAt, ID: id}, nil
}

// bulkVerb is an action on many items.
type bulkVerb struct {
	Name, Title, past, what string
	// Destroys reports whether it cannot be undone.
	Destroys bool
	do       func(on Changer, ctx context.Context, items []int64, who string) (int, error)
}

var (
	cancel = bulkVerb{"cancel", "Cancel", "cancelled",
		"Each is never started. Items that are claimed, running, unanswered or uncertain are skipped.", true,
		counting(Changer.CancelItems)}
	retry = bulkVerb{"retry", "Retry now", "due now",
		"Each is due now, under the usual limits. Items that do not wait are skipped.", false,
		counting(Changer.RetryItems)}
	replay = bulkVerb{"replay", "Replay", "replayed",
		"Each is started again as a new item with a new workflow ID, under the usual limits.", false,
		counting(Changer.ReplayAll)}
	discard = bulkVerb{"discard", "Discard", "discarded",
		"Each is marked as handled and no longer listed. Only the retention of finished items deletes it.", true,
		counting(Changer.Discard)}
	giveUp = bulkVerb{"give-up", "Give up", "given up",
		"A replica asks Temporal for the workflow of each item that keeps its slot while it waits for another try, or " +
			"whose workflow Temporal does not find. The item fails if there is none. Others are skipped.", true,
		func(on Changer, ctx context.Context, items []int64, who string) (int, error) {
			waiting, err := on.GiveUpItems(ctx, items, who)
			if err != nil {
				return 0, err
			}
			missing, err := on.GiveUpExecutions(ctx, items, who)
			return len(waiting) + len(missing), err
		}}
	// verbs are all of them by name.
	verbs = map[string]bulkVerb{"cancel": cancel, "retry": retry, "replay": replay, "discard": discard, "give-up": giveUp}
)

// counting returns a bulkVerb's do that makes a change.
func counting[T any](change func(Changer, context.Context, []int64, string) ([]T, error)) func(Changer,
	context.Context, []int64, string) (int, error) {
	return func(on Changer, ctx context.Context, items []int64, who string) (int, error) {
		done, err := change(on, ctx, items, who)
		return len(done), err
	}
}

// dryRun asks for confirmation and lists the dead letters. The form contains their IDs, so later failures are not
// included.
func (v visit) dryRun(verb bulkVerb) handler {
	return func(r *http.Request) (string, any, error) {
		f, err := v.findLetters(r, v.acts.ids(), nil, bulkLooked, bulkMost+1)
		if err != nil {
			return "", nil, err
		}
		ids := f.ids[:min(len(f.ids), bulkMost)]
		items, err := v.Read.Items(r.Context(), ids, nil, false)
		if err != nil {
			return "", nil, err
		}
		ask := askBulk(verb, f, ids, items)
		ask.Rows, err = v.listed(r.Context(), items[:min(len(items), samplesShown)])
		return "confirm", ask, err
	}
}

func askBulk(verb bulkVerb, f found, ids []int64, items []operate.Item) confirmation {
	c := confirmation{Heading: verb.Title + " dead letters?", Back: f.To("letters"), Destroys: verb.Destroys}
	if len(ids) == 0 {
		c.What = []string{"No open dead letter matches, so there is nothing to " + verb.Name + "."}
		if f.further != nil {
			c.What = []string{fmt.Sprintf("None of the newest %s failures matches. For older ones, use `pgdispatch dead %s`.",
				view.Number(bulkLooked), verb.Name)}
		}
		return c
	}
	workspaces := map[string]bool{}
	for _, item := range items {
		workspaces[item.WorkspaceID] = true
	}
	count := view.Counted(len(ids), "dead letter")
	c.What = []string{fmt.Sprintf("This would %s %s of %s.", verb.Name, count, view.Counted(len(workspaces), "workspace")),
		verb.what}
	if f.Kind != "" {
		c.What = append(c.What,
			fmt.Sprintf("They have the same kind of error and are among the newest %s failures. To find older ones, filter by "+
				"a part of their error.", view.Number(int64(f.Looked()))))
	}
	if f.further != nil {
		c.What = append(c.What,
			fmt.Sprintf("They are among the newest %s failures. For older ones, use `pgdispatch dead %s`.",
				view.Number(bulkLooked), verb.Name))
	}
	if len(f.ids) > bulkMost {
		c.What = append(c.What,
			fmt.Sprintf("There are more. One action covers at most %s, the latest failures. Repeat it for the others, or use "+
				"`pgdispatch dead %s`.",
				view.Number(bulkMost), verb.Name))
	}
	c.To, c.Button = Prefix+"dead/"+verb.Name, verb.Title+" "+count
	c.Items = joined(ids)
	c.Note = "The table lists the newest. Later failures are not included. Dead letters that others handle in the " +
		"meantime are skipped."
	return c
}

// bulk applies verb to the items named in the form that allow it, lowest ID first, one transaction per batch. It leads
// back to the list.
func (v visit) bulk(verb bulkVerb, thing string) change {
	return func(r *http.Request, who string) (next, error) {
		ids, err := readItems(r.PostForm.Get("items"))
		if err != nil {
			return next{}, err
		}
		done := 0
		for batch := range slices.Chunk(ids, bulkBatch) {
			n, err := verb.do(v.Change, r.Context(), batch, who)
			if done += n; err != nil && done == 0 {
				return next{}, err // nothing was changed
			}
			if err != nil {
				v.Log.WarnContext(r.Context(), "Bulk change failed", "verb", verb.Name, "done", done, "error", err)
				return next{}, problem{http.StatusServiceUnavailable,
					fmt.Sprintf("%s of %s %s", view.Number(int64(done)), view.Counted(len(ids), thing), verb.past),
					"The database then stopped answering. The others are unchanged, except possibly one batch of up to 500. " +
						"Start again from the list: none is processed twice."}
			}
		}
		if done == 0 {
			if err := v.onlyViews(r.Context(), ids); err != nil {
				return next{}, err
			}
		}
		return next{to: Prefix + localPath(r.PostForm.Get("back")), done: verb.Name, count: done, left: len(ids) - done}, nil
	}
}

// localPath returns the address of a list below Prefix, as a form named it, or that of all items.
func localPath(back string) string {
	if u, err := url.Parse(back); err != nil || u.Path != "items" && u.Path != "dead/letters" {
		return "items"
	}
	return back
}

// onlyViews returns onlyViewed if the visitor sees some of the items and may act on none of them.
func (v visit) onlyViews(ctx context.Context, ids []int64) error {
	if v.acts.all {
		return nil
	}
	items, err := v.Read.Items(ctx, ids, nil, false)
	if err != nil || len(items) == 0 || slices.ContainsFunc(items, func(i operate.Item) bool {
		return v.acts.in(i.WorkspaceID)
	}) {
		return err
	}
	return onlyViewed
}

// readItems parses comma-separated IDs. It sorts them and removes duplicates.
func readItems(text string) ([]int64, error) {
	ids := []int64{}
	for part := range strings.SplitSeq(text, ",") {
		id, err := strconv.ParseInt(part, 10, 64)
		if err != nil || id < 1 || len(ids) == bulkMost {
			return nil, problem{http.StatusBadRequest,
				"Nothing was changed: items must be 1 to 5,000 item numbers, separated by commas.",
				"Start again from the dead letters."}
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}
