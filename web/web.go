// Package web serves the state of all replicas as pages: rendered here, with no assets of others and no build step. It reads and
// changes nothing.
package web

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	nethttp "net/http"
	"strings"

	"github.com/pgdispatch/pgdispatch/claim"
)

// Prefix is the path that all pages are below.
const Prefix = "/ui/"

// Reader is the read model. What each of its methods costs is bounded, however much the tables hold.
type Reader interface {
	Overview(ctx context.Context) (claim.Overview, error)
	ListWorkspaces(ctx context.Context, search string, by claim.WorkspaceOrder, after *claim.WorkspaceKey, atMost int) ([]claim.WorkspaceRow, error)
	FindWorkspaces(ctx context.Context, idOrName string) ([]claim.WorkspaceName, error)
	ListItems(ctx context.Context, f claim.ItemFilter, status string, workspaces, definitions []string, atMost int) (claim.ItemPage, error)
	QueueItems(ctx context.Context, items []int64, executions []string, withParams bool) ([]claim.QueueItem, error)
	Failures(ctx context.Context, item int64) ([]claim.Failure, error)
	DeadGroups(ctx context.Context, atMost int) ([]claim.DeadGroup, error)
}

// Site is the web view. Its fields are set before Handler and not changed after.
type Site struct {
	Read Reader
	// TemporalUI is the address of Temporal's own web interface; "": items have no links to it.
	TemporalUI string
	Log        *slog.Logger

	live live
}

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed static
var staticFiles embed.FS

// pages are the templates by the name of their page, each with the layout around it.
var pages = parsePages("overview", "workspaces", "items", "item", "dead", "problem")

func parsePages(names ...string) map[string]*template.Template {
	layout := template.Must(template.New("layout.html").Funcs(functions).ParseFS(templateFiles, "templates/layout.html", "templates/live.html"))
	all := map[string]*template.Template{}
	for _, name := range names {
		all[name] = template.Must(template.Must(layout.Clone()).ParseFS(templateFiles, "templates/"+name+".html"))
	}
	return all
}

// Handler serves the pages below Prefix. Who may see them is for its caller to decide.
func (s *Site) Handler() nethttp.Handler {
	mux := nethttp.NewServeMux()
	mux.HandleFunc("GET "+Prefix+"{$}", s.page(s.overview))
	mux.HandleFunc("GET "+Prefix+"workspaces", s.page(s.workspaces))
	mux.HandleFunc("GET "+Prefix+"items", s.page(s.items))
	mux.HandleFunc("GET "+Prefix+"items/{id}", s.page(s.item))
	mux.HandleFunc("GET "+Prefix+"dead", s.page(s.dead))
	mux.HandleFunc("GET "+Prefix+"live", s.stream)
	mux.Handle("GET "+Prefix+"static/", nethttp.StripPrefix(strings.TrimSuffix(Prefix, "/"), nethttp.FileServerFS(staticFiles)))
	mux.HandleFunc("GET "+Prefix, s.page(func(*nethttp.Request) (string, any, error) {
		return "", nil, problem{nethttp.StatusNotFound, "There is no such page.", "The links above lead to all there are."}
	}))
	return withHeaders(mux)
}

// withHeaders has the browser run nothing and load nothing that is not from here, and show the pages in no frame.
func withHeaders(next nethttp.Handler) nethttp.Handler {
	return nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "+
			"form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// problem is an answer that is no page: what is wrong, and what to do.
type problem struct {
	Code         int
	What, Remedy string
}

func (p problem) Error() string { return p.What }

// sheet is what a page's template is given.
type sheet struct {
	Title string
	Path  string
	Data  any
}

// page renders what a handler returns: the template's name, which is the page's title too, and its data.
func (s *Site) page(of func(*nethttp.Request) (name string, data any, err error)) nethttp.HandlerFunc {
	return func(w nethttp.ResponseWriter, r *nethttp.Request) {
		name, data, err := of(r)
		code := nethttp.StatusOK
		if err != nil {
			var known problem
			if !errors.As(err, &known) {
				s.Log.WarnContext(r.Context(), "Cannot serve a page", "path", r.URL.Path, "error", err)
				known = problem{nethttp.StatusServiceUnavailable, "The database did not answer.", "Try again in a moment; `pgdispatch doctor` says what is wrong with it."}
			}
			name, data, code = "problem", known, known.Code
		}
		var out strings.Builder
		if err := pages[name].ExecuteTemplate(&out, "layout.html", sheet{name, r.URL.Path, data}); err != nil {
			s.Log.ErrorContext(r.Context(), "Cannot render a page", "path", r.URL.Path, "error", err)
			nethttp.Error(w, "this page cannot be rendered", nethttp.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(code)
		fmt.Fprint(w, out.String())
	}
}
