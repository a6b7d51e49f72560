package web

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/pgdispatch/pgdispatch/internal/signin"
)

const (
	// mostWorkspaces is the number of workspaces that a visitor's roles may name.
	mostWorkspaces = 1000
	// rightsAge is how long a site remembers which workspaces have the names in its visitors' roles.
	rightsAge = 5 * time.Second
	// mostScopedSites is the number of scoped sites kept.
	mostScopedSites = 64
)

var (
	// onlyViewed explains why a visitor may not change what they see.
	onlyViewed = problem{http.StatusForbidden, "Nothing was changed: you may view this workspace, but not act in it.",
		"Ask for a group that has the role operator in it."}
	// ofAll explains why a visitor of some workspaces may not change the settings.
	ofAll = problem{http.StatusForbidden,
		"Nothing was changed: this applies to all workspaces, and you may act in some only.",
		"Ask an operator of all workspaces. You can pause a single workspace on its page."}
	noSuchItem = problem{http.StatusNotFound, "Item not found.",
		"Retention may have deleted it, or its insert was never committed."}
	noSuchWorkspace = problem{http.StatusNotFound, "Workspace not found.",
		"It may have been deleted. See the list of workspaces."}
)

// acting says in which workspaces visitors may make changes: in all or some.
type acting struct {
	all  bool
	some map[string]bool // by ID
}

func (a acting) any() bool { return a.all || len(a.some) > 0 }

func (a acting) in(workspace string) bool { return a.all || a.some[workspace] }

// ids returns the IDs of the workspaces, or nil if they are all.
func (a acting) ids() []string {
	if a.all {
		return nil
	}
	return slices.AppendSeq([]string{}, maps.Keys(a.some))
}

// scopedSites caches one Site per set of rights in single workspaces. The sites share no data, so that no visitor is
// shown what was read for another.
type scopedSites struct {
	mu      sync.Mutex
	entries map[string]*scopedSite // by rights
}

type scopedSite struct {
	rights
	site    *Site
	handler http.Handler
	// at is when the rights were read. used is when the site was visited last.
	at, used time.Time
}

// rights are signin.Rights with the workspaces that exist.
type rights struct {
	confined bool
	named    []operate.WorkspaceName
	acts     map[string]bool // IDs, of named
}

// byVisitor serves the pages for all workspaces to those who have the same rights in all, or who signed in with a
// token. It serves the others the pages of their scoped site.
func (s *Site) byVisitor(whole http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		visitor, known := signin.From(r.Context())
		if !known || visitor.Everywhere() || strings.HasPrefix(r.URL.Path, Prefix+"static/") {
			whole.ServeHTTP(w, r)
			return
		}
		c, err := s.siteOf(r.Context(), visitor.Rights)
		if err != nil {
			nobody := s.scopedSite(rights{confined: true})
			withHeaders(nobody.site.page(func(*http.Request) (string, any, error) { return "", nil, err })).ServeHTTP(w, r)
			return
		}
		c.handler.ServeHTTP(w, r)
	})
}

// siteOf returns the scoped site of visitors with these rights.
func (s *Site) siteOf(ctx context.Context, of signin.Rights) (*scopedSite, error) {
	text, err := json.Marshal(of)
	if err != nil {
		return nil, fmt.Errorf("name a visitor's rights: %w", err)
	}
	key := string(text)
	s.scopedSites.mu.Lock()
	c := s.scopedSites.entries[key]
	fresh := c != nil && time.Since(c.at) < rightsAge
	if fresh {
		c.used = time.Now()
	}
	s.scopedSites.mu.Unlock()
	if fresh {
		return c, nil
	}
	at := time.Now()
	read, err := s.rights(ctx, of)
	if err != nil {
		return nil, err
	}
	s.scopedSites.mu.Lock()
	defer s.scopedSites.mu.Unlock()
	if c = s.scopedSites.entries[key]; c == nil || !reflect.DeepEqual(c.rights, read) {
		c = s.scopedSite(read)
		s.scopedSites.keep(key, c)
	}
	c.at, c.used = at, time.Now()
	return c, nil
}

// keep adds a scoped site, in place of the one that was visited longest ago if there are too many.
func (c *scopedSites) keep(key string, one *scopedSite) {
	if c.entries == nil {
		c.entries = map[string]*scopedSite{}
	}
	c.entries[key] = one
	if len(c.entries) <= mostScopedSites {
		return
	}
	oldest := key
	for k, other := range c.entries {
		if k != key && (oldest == key || other.used.Before(c.entries[oldest].used)) {
			oldest = k
		}
	}
	delete(c.entries, oldest)
}

// rights reads the workspaces that the visitor's roles name.
func (s *Site) rights(ctx context.Context, of signin.Rights) (rights, error) {
	byID, byName := map[string]bool{}, map[string]bool{} // whether as operator
	for _, g := range of.Grants {
		switch {
		case operate.IsUUID(g.Workspace):
			id := strings.ToLower(g.Workspace)
			byID[id] = byID[id] || g.Operator
		case utf8.ValidString(g.Workspace) && !strings.Contains(g.Workspace, "\x00"): // others cannot exist
			byName[g.Workspace] = byName[g.Workspace] || g.Operator
		}
	}
	found, err := s.Read.WorkspacesNamed(ctx, slices.Sorted(maps.Keys(byID)), slices.Sorted(maps.Keys(byName)),
		mostWorkspaces+1)
	switch {
	case err != nil:
		return rights{}, err
	case len(found) > mostWorkspaces:
		return rights{}, problem{http.StatusForbidden, fmt.Sprintf("You have roles in more than %s workspaces.",
			view.Number(mostWorkspaces)), "Ask for a role in all workspaces, or in fewer."}
	case of.Confined && len(found) == 0:
		return rights{}, problem{http.StatusForbidden, "None of the workspaces that you have a role in exists.",
			"Ask for a role in another. The setting is `PGDISPATCH_AUTH_WORKSPACES`."}
	}
	read := rights{of.Confined, found, map[string]bool{}}
	for _, w := range found {
		if byID[w.ID] || byName[w.Name] {
			read.acts[w.ID] = true
		}
	}
	return read, nil
}

// scopedSite returns the pages of visitors with these rights. It shares the bounds of s, and no data.
func (s *Site) scopedSite(of rights) *scopedSite {
	site := &Site{TemporalUI: s.TemporalUI, Base: s.Base, Log: s.Log, whole: s, confined: of.confined, role: of.words()}
	var seen []string
	if of.confined {
		seen = make([]string, len(of.named)) // never nil, which is all
		for n, w := range of.named {
			seen[n] = w.ID
		}
	}
	site.Read, site.Change = s.Within(seen, acting{some: of.acts}.ids())
	c := &scopedSite{rights: of, site: site}
	if c.handler = site.reading(); len(of.acts) > 0 {
		c.handler = site.forms(acting{some: of.acts})
	}
	return c
}

// words describes the rights for the top of each page.
func (r rights) words() string {
	operated, viewed := []string{}, []string{}
	for _, w := range r.named {
		if r.acts[w.ID] {
			operated = append(operated, w.Name)
		} else {
			viewed = append(viewed, w.Name)
		}
	}
	parts := []string{}
	if len(operated) > 0 {
		parts = append(parts, "operator of "+oneOrMany(operated))
	}
	switch {
	case !r.confined:
		parts = append(parts, "viewer")
	case len(viewed) > 0:
		parts = append(parts, "viewer of "+oneOrMany(viewed))
	}
	return strings.Join(parts, ", ")
}

func oneOrMany(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return view.Counted(len(names), "workspace")
}
