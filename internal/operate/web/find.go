package web

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

// find leads to what a text names: an item, by its number or the ID of its execution or workflow, or a workspace.
// Any other text filters the items.
func (s *Site) find(r *http.Request) (string, any, error) {
	text := strings.TrimSpace(r.URL.Query().Get("q"))
	if err := checkText("q", text); err != nil || text == "" {
		return "", nil, orMoved(err, "items")
	}
	if item, err := s.itemNamed(r.Context(), text); err == nil {
		return "", nil, moved(pathOf(item.ID))
	}
	rows, err := s.Read.ListWorkspaces(r.Context(), text, operate.ByName, nil, 2)
	switch {
	case err != nil:
		return "", nil, err
	case len(rows) == 1:
		return "", nil, moved(Prefix + "workspaces/" + rows[0].ID)
	case len(rows) > 1:
		return "", nil, moved(Prefix + "workspaces?" + url.Values{"q": {text}}.Encode())
	}
	return "", nil, moved(Prefix + "items?" + url.Values{typedParameter: {text}}.Encode())
}

// orMoved returns err or, if it is nil, a redirect to a page.
func orMoved(err error, page string) error {
	if err != nil {
		return err
	}
	return moved(Prefix + page)
}

// meant is a name, and the address of the list with it.
type meant struct{ Name, To string }

// meant returns the names that a list's filter may have meant by those that nothing has.
func (s *Site) meant(r *http.Request) (all []meant, err error) {
	for _, of := range []operate.Named{operate.NamedWorkspace, operate.NamedDefinition, operate.NamedKey} {
		name := r.URL.Query().Get(string(of))
		if name == "" || operate.IsUUID(name) {
			continue
		}
		names, err := s.Read.Names(r.Context(), of, name)
		if err != nil {
			return nil, err
		}
		for _, likely := range append(names.Same, names.Near...) {
			all = append(all, meant{likely, with(r.URL, string(of), likely)})
		}
	}
	return all, nil
}
