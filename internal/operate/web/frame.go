package web

import (
	"context"
	"errors"
	"html/template"
	"net/http"
	"strings"

	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/pgdispatch/pgdispatch/internal/signin"
)

// banner returns what stops all starts, for the top of each page. It is nil if nothing does, if the page says so
// itself, or if the database does not answer.
func (s *Site) banner(ctx context.Context, name string, err error) *view.Concern {
	var known problem
	var again shown
	if name == "overview" || err != nil && !errors.As(err, &known) && !errors.As(err, &again) {
		return nil
	}
	seen, err := s.standing(ctx)
	if err != nil {
		return nil
	}
	return view.OutageOf(seen)
}

// signedIn returns who sends a request.
func (s *Site) signedIn(r *http.Request) visitor {
	if v, known := signin.From(r.Context()); known {
		role := s.role
		if role == "" {
			role = map[bool]string{true: "operator", false: "viewer"}[v.Operator]
		}
		return visitor{Who: v.Name, Role: role, SignsOut: v.Via == "oidc"}
	}
	name, _, basic := r.BasicAuth()
	return visitor{Who: name, SignsOut: basic}
}

// linked adds Base to the links of a page. Templates and handlers write links from Prefix on. Text of others cannot be
// taken for a link, because its quotation marks are escaped.
func (s *Site) linked(html string) string {
	if s.Base == "" {
		return html
	}
	return strings.NewReplacer(
		`href="`+Prefix, `href="`+s.Base+Prefix, `src="`+Prefix, `src="`+s.Base+Prefix,
		`action="`+Prefix, `action="`+s.Base+Prefix, `data-stream="`+Prefix, `data-stream="`+s.Base+Prefix,
	).Replace(html)
}

// redirect sends the browser to a page.
func (s *Site) redirect(w http.ResponseWriter, r *http.Request, to string) {
	http.Redirect(w, r, s.Base+to, http.StatusSeeOther)
}

// docs is where the documentation is read.
const docs = "https://github.com/pgdispatch/pgdispatch/blob/main/docs/"

// remedies are the pages, here or of the documentation, that stand for commands.
var remedies = []struct{ command, to, text string }{
	{"pgdispatch settings set", Prefix + "settings", "on the settings page"},
	{"pgdispatch dead list", Prefix + "dead", "see the dead letters"},
	{"pgdispatch status", Prefix + "workspaces?sort=oldest", "the list of workspaces"},
	{"pgdispatch doctor", docs + "operating.md#doctor", "doctor"},
	{"pgdispatch run", docs + "deploy.md", "the guide to deployment"},
	{"pgdispatch items", docs + "operating.md#items-and-workspaces", "retry its items"},
	{"pgdispatch executions terminate", docs + "operating.md#items-and-workspaces", "terminate them"},
}

// remedy escapes text. Commands between backticks become links to what explains or does the same, anything else between
// backticks code.
func remedy(text string) template.HTML {
	var out strings.Builder
	for n, part := range strings.Split(text, "`") {
		if n%2 == 0 {
			out.WriteString(template.HTMLEscapeString(part))
			continue
		}
		out.WriteString(code(part))
	}
	return template.HTML(out.String()) // escaped above
}

func code(text string) string {
	for _, r := range remedies {
		if strings.HasPrefix(text, r.command) {
			return `<a href="` + r.to + `">` + r.text + `</a>`
		}
	}
	return "<code>" + template.HTMLEscapeString(text) + "</code>"
}
