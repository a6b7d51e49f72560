// Package web serves the state of all replicas as HTML pages, rendered on the server, without third-party assets or a
// build step. Visitors with the admin token can make the same changes as the command line, with the same statements and
// the same log of changes.
package web

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

// Prefix is the path prefix of all pages.
const Prefix = "/ui/"

// Reader is the read model. The cost of each method is bounded, regardless of the size of the tables. Nil workspaces
// are all that are in the scope of the store.
type Reader interface {
	Overview(ctx context.Context) (operate.Overview, error)
	Standing(ctx context.Context) (operate.Overview, error)
	QueueDepth(ctx context.Context) (operate.Depth, error)
	ListWorkspaces(ctx context.Context, search string, by operate.WorkspaceOrder, after *operate.WorkspaceKey,
		atMost int) ([]operate.WorkspaceRow, error)
	WorkspacesOf(ctx context.Context, ids []string) ([]operate.WorkspaceRow, error)
	WorkspacesNamed(ctx context.Context, ids, names []string, atMost int) ([]operate.WorkspaceName, error)
	FindWorkspaces(ctx context.Context, idOrName string) ([]operate.WorkspaceName, error)
	Names(ctx context.Context, of operate.Named, name string) (operate.Names, error)
	ListItems(ctx context.Context, f operate.ItemFilter, status string, workspaces []string, definition string,
		atMost int) (operate.ItemPage, error)
	Items(ctx context.Context, items []int64, executions []string, withParams bool) ([]operate.Item, error)
	ItemsNamed(ctx context.Context, refs []string, withParams bool) (map[string][]operate.Item, error)
	Nodes(ctx context.Context, item int64) ([]string, error)
	Failures(ctx context.Context, item int64) ([]operate.Failure, error)
	Signals(ctx context.Context, executionID string, states []string, atMost int) ([]operate.Signal, error)
	DeadGroups(ctx context.Context, atMost int) ([]operate.DeadGroup, error)
	DeadOfKind(ctx context.Context, kind string, workspaces []string, after *operate.DeadKey, atMost int) ([]int64, error)
	SearchDeadLetters(ctx context.Context, filter operate.DeadFilter, newest, atMost int) ([]int64, *operate.DeadKey,
		error)
	WorkspaceDetail(ctx context.Context, id string) (operate.WorkspaceDetail, bool, error)
	Definitions(ctx context.Context, workspaceID string, atMost int) ([]operate.Definition, error)
	CompleteDefinitions(ctx context.Context, workspaceID, beginning string, atMost int) ([]string, error)
	Plans(ctx context.Context) ([]operate.Plan, error)
	CompleteWorkspaces(ctx context.Context, beginning string, atMost int) ([]operate.WorkspaceName, error)
	CompleteErrors(ctx context.Context, part string, atMost int) ([]string, error)
	EndedItems(ctx context.Context, workspaces []string) ([]operate.EndedCount, error)
	Ahead(ctx context.Context, item int64) (int64, error)
	KeyLimitsOf(ctx context.Context, workspaceID, key string) ([]operate.KeyLimit, error)
	KeyLimits(ctx context.Context, filter operate.KeyLimitFilter, atMost int) ([]operate.KeyLimit, error)
	Limits(ctx context.Context, filter operate.KeyLimitFilter, atMost int) ([]operate.KeyLimit, int64, error)
	FullLimits(ctx context.Context, workspaces, keys []string) ([]operate.KeyLimit, error)
	UnlimitedKeys(ctx context.Context, atMost int) ([]operate.LimitKey, error)
	Activity(ctx context.Context, back time.Duration) ([]operate.Minute, error)
	WorkspaceActivity(ctx context.Context, id string, back time.Duration) ([]operate.Stretch, error)
	ChangesOf(ctx context.Context, item int64) ([]operate.Administered, error)
	Settings(ctx context.Context) (operate.Settings, error)
	Audit(ctx context.Context, f operate.AuditFilter, atMost int) ([]operate.Administered, error)
}

// Site is the web view. Set its fields before Handler and do not change them afterwards.
type Site struct {
	Read Reader
	// Change is used only by Acting.
	Change Changer
	// Within returns Read and Change within the workspaces with these IDs, for visitors with roles in some. Nil are all.
	Within func(seen, changed []string) (Reader, Changer)
	// TemporalUI is the URL of Temporal's web interface. If empty, items have no links to it.
	TemporalUI string
	// Base is the path below which browsers see Prefix, such as /tools. Empty means at the root.
	Base string
	Log  *slog.Logger

	live        cached[glance]
	depths      cached[operate.Depth]
	stands      cached[operate.Overview]
	charts      charts
	drawing     turns
	streams     turns
	scopedSites scopedSites

	// whole is nil, unless this is a scoped site: then it is the site for all workspaces. confined reports whether a
	// scoped site shows only the workspaces of its visitors. role describes their rights.
	whole    *Site
	confined bool
	role     string
}

// New returns the site of these stores.
func New(read, change *operate.Store) *Site {
	return &Site{Read: read, Change: change, Within: func(seen, changed []string) (Reader, Changer) {
		return read.Within(seen), change.Within(changed)
	}}
}

// bounds returns the site whose turns bound this one.
func (s *Site) bounds() *Site {
	if s.whole != nil {
		return s.whole
	}
	return s
}

//go:embed templates/*.html
var templateFiles embed.FS

// pages holds the template of each page, with the layout, by the page's name.
var pages = parsePages("overview", "workspaces", "workspace", "items", "item", "dead", "letters", "confirm",
	"settings", "limits", "problem")

func parsePages(names ...string) map[string]*template.Template {
	layout := template.Must(template.New("layout.html").Funcs(functions).ParseFS(templateFiles, "templates/layout.html",
		"templates/live.html", "templates/frame.html", "templates/itemlist.html", "templates/itemforms.html",
		"templates/filter.html"))
	all := map[string]*template.Template{}
	for _, name := range names {
		all[name] = template.Must(template.Must(layout.Clone()).ParseFS(templateFiles, "templates/"+name+".html"))
	}
	return all
}

// Handler returns the read-only pages below Prefix. It does no authentication. A signin.Visitor of the request's
// context who has roles in single workspaces gets the pages that these allow instead.
func (s *Site) Handler() http.Handler { return s.byVisitor(s.reading()) }

func (s *Site) reading() http.Handler { return withHeaders(visit{s, acting{}}.readRoutes().mux()) }

// routes are handlers by pattern. A test walks all of them as a visitor of another workspace.
type routes map[string]http.Handler

func (all routes) mux() *http.ServeMux {
	mux := http.NewServeMux()
	for pattern, handler := range all {
		mux.Handle(pattern, handler)
	}
	return mux
}

// readRoutes are those of visitors who may only look.
func (v visit) readRoutes() routes {
	all := v.routes()
	for path := range v.questions() {
		all["GET "+Prefix+path] = v.page(readOnly)
	}
	all["POST "+Prefix] = v.page(readOnly)
	return all
}

// routes are the pages that only read.
func (v visit) routes() routes {
	all := routes{}
	for path, of := range map[string]handler{
		"{$}": v.overview, "workspaces": v.workspaces, "workspaces/{id}": v.workspace,
		"items": itemBar().filtered(v.items), "items/{id}": v.item, "dead": v.dead,
		"dead/letters": letterBar().filtered(v.letters), "settings": v.settings, "find": v.find,
		"limits": v.limits,
	} {
		all["GET "+Prefix+path] = v.page(of)
	}
	all["GET "+Prefix+"items/{id}/params"] = v.inTurn(v.params)
	all["GET "+Prefix+"limits.json"] = v.inTurn(v.limitsJSON)
	all["GET "+Prefix+"suggest"] = v.inTurn(v.suggest)
	all["GET "+Prefix+"live"] = http.HandlerFunc(v.stream)
	all["GET "+Prefix+"static/"] = http.HandlerFunc(static)
	all[Prefix] = v.page(noSuchPage)
	return all
}

func noSuchPage(*http.Request) (string, any, error) {
	return "", nil, problem{http.StatusNotFound, "Page not found.", "Use the links above."}
}

// withHeaders lets the browser load scripts and other resources from this origin only, and forbids framing.
func withHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy",
			"default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "+
				"form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// problem is an error shown as a page: what is wrong and what to do.
type problem struct {
	Code         int
	What, Remedy string
}

func (p problem) Error() string { return p.What }

// shown is an error that shows a page again after a refused change, with the reason and the input.
type shown struct {
	Code int
	Name string
	Data any
}

func (s shown) Error() string { return "shown on page " + s.Name }

// sheet is the data of the layout template.
type sheet struct {
	Title string
	Done  string // result of the change that redirected here, or empty
	Data  any
	// Outage is what stops all starts, or nil.
	Outage *view.Concern
	visitor
}

// visitor is who looks at a page, for its top.
type visitor struct {
	// Who is their name, and Role what they may do. Both are empty if not known.
	Who, Role string
	// SignsOut reports whether they can sign out here. They cannot if a proxy has signed them in.
	SignsOut bool
}

// handler returns a page: its template's name, which is also its title, and its data, which may be later.
type handler = func(*http.Request) (name string, data any, err error)

// later reads the data of a page whose request is valid and whose subject exists. A browser gets the top of the page
// before, so that it draws it and loads what the page needs in the meantime.
type later func() (any, error)

// page renders what a handler returns.
func (s *Site) page(of handler) http.HandlerFunc {
	return s.inTurn(func(w http.ResponseWriter, r *http.Request) {
		notice := ""
		if query := r.URL.Query(); query.Has(doneParameter) {
			notice, r = noticeOf(query), r.Clone(r.Context())
			for _, name := range []string{doneParameter, countParameter, leftParameter} {
				query.Del(name)
			}
			r.URL.RawQuery = query.Encode()
		}
		name, data, err := of(r)
		s.answer(w, r, notice, name, data, err)
	})
}

// answer writes a page with the result of the change that led to it, or the page that explains err.
func (s *Site) answer(w http.ResponseWriter, r *http.Request, notice, name string, data any, err error) {
	var to moved
	if errors.As(err, &to) {
		s.redirect(w, r, string(to))
		return
	}
	frame, sent := sheet{Title: name, Done: notice, visitor: s.signedIn(r)}, ""
	if read, is := data.(later); is && err == nil {
		if sent, err = s.begin(w, r, &frame); err == nil {
			data, err = read()
		}
	}
	code := http.StatusOK
	if sent == "" {
		frame.Outage = s.banner(r.Context(), name, err)
	}
	if err != nil {
		page := s.explain(r, err)
		code, name, data = page.Code, page.Name, page.Data
		if sent == "" {
			frame.Title = name
		}
	}
	frame.Data = data
	text, err := s.render(name, "layout.html", frame)
	if err != nil {
		s.Log.ErrorContext(r.Context(), "Cannot render a page", "path", r.URL.Path, "error", err)
		http.Error(w, "this page cannot be rendered", http.StatusInternalServerError)
		return
	}
	if sent == "" {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(code)
	}
	fmt.Fprint(w, strings.TrimPrefix(text, sent))
}

// begin sends the top of a page to a browser and returns it, or an error if the database does not answer. Programs get
// none, so that their status says whether the page could be read.
func (s *Site) begin(w http.ResponseWriter, r *http.Request, frame *sheet) (string, error) {
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		return "", nil
	}
	seen, err := s.standing(r.Context())
	if err != nil {
		return "", err
	}
	frame.Outage = view.OutageOf(seen)
	top, err := s.render("problem", "top", frame)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	fmt.Fprint(w, top)
	_ = http.NewResponseController(w).Flush() // unsupported only in tests
	return top, err
}

// render executes a template of a page.
func (s *Site) render(name, part string, data any) (string, error) {
	var out strings.Builder
	err := pages[name].ExecuteTemplate(&out, part, data)
	return s.linked(out.String()), err
}

// explain returns the page for an error. It hides the text of unexpected errors, which may contain secrets.
func (s *Site) explain(r *http.Request, err error) shown {
	var page shown
	if errors.As(err, &page) {
		return page
	}
	var known problem
	if !errors.As(err, &known) {
		known = problem{http.StatusServiceUnavailable, "The database did not answer.",
			"Try again in a moment, or run `pgdispatch doctor` to find the cause."}
		s.Log.WarnContext(r.Context(), "Cannot serve a page", "path", r.URL.Path, "error", err)
	}
	return shown{known.Code, "problem", known}
}

func bad(what string) problem {
	return problem{http.StatusBadRequest, what, "Correct the address, or start again from the links above."}
}

// maxText is the maximum length of a search text in bytes.
const maxText = 200

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
