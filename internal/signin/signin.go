// Package signin tells who opens the web view: a user whom a trusted proxy names, or who signed in with OpenID Connect.
package signin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Visitor is a user who may see the pages.
type Visitor struct {
	// Name is as the proxy or the provider says, and Via how it is known: "proxy" or "oidc".
	Name, Via string
	Rights
}

// Rights are what a visitor may do.
type Rights struct {
	// Operator reports whether the visitor may also make changes, in all workspaces.
	Operator bool
	// Confined reports whether the visitor sees the workspaces of Grants only, instead of all.
	Confined bool `json:",omitempty"`
	// Grants are the visitor's roles in single workspaces, by workspace.
	Grants []Grant `json:",omitempty"`
}

// Grant is a role in one workspace, or in all of one name.
type Grant struct {
	// Workspace is an ID or a name.
	Workspace string
	// Operator reports whether the role allows changes. Each allows to view.
	Operator bool `json:",omitempty"`
}

// Everywhere reports whether the visitor has the same rights in all workspaces.
func (r Rights) Everywhere() bool { return r.Operator || !r.Confined && len(r.Grants) == 0 }

// Acts reports whether the visitor may make changes anywhere.
func (r Rights) Acts() bool {
	return r.Operator || slices.ContainsFunc(r.Grants, func(g Grant) bool { return g.Operator })
}

type visitorKey struct{}

// With returns a context that carries the visitor.
func With(ctx context.Context, v Visitor) context.Context {
	return context.WithValue(ctx, visitorKey{}, v)
}

// From returns the visitor of a request's context.
func From(ctx context.Context) (Visitor, bool) {
	v, is := ctx.Value(visitorKey{}).(Visitor)
	return v, is
}

// Roles says which roles or groups of the proxy or provider make a user an operator or a viewer. Names are compared
// exactly.
type Roles struct {
	// Operators and Viewers are roles in all workspaces.
	Operators, Viewers []string
	// Workspaces are roles in single workspaces.
	Workspaces []Mapping
}

// Placeholder stands for the same text in a Mapping's group and workspace.
const Placeholder = "{workspace}"

// Mapping gives a group a role in a workspace.
type Mapping struct {
	Group string
	// Workspace is an ID or a name. Either both Group and Workspace contain Placeholder, or neither.
	Workspace string
	Operator  bool
}

// workspace returns the workspace in which the mapping gives the group a role.
func (m Mapping) workspace(group string) (string, bool) {
	before, after, pattern := strings.Cut(m.Group, Placeholder)
	if !pattern {
		return m.Workspace, group == m.Group
	}
	rest, begins := strings.CutPrefix(group, before)
	name, ends := strings.CutSuffix(rest, after)
	return strings.Replace(m.Workspace, Placeholder, name, 1), begins && ends && name != ""
}

// grant returns the rights of a user with these roles, and whether there are any.
func (r Roles) grant(roles []string) (rights Rights, looks bool) {
	has := func(names []string) bool {
		return slices.ContainsFunc(roles, func(role string) bool { return slices.Contains(names, role) })
	}
	if has(r.Operators) {
		return Rights{Operator: true}, true
	}
	operators := map[string]bool{} // by workspace
	for _, role := range roles {
		for _, m := range r.Workspaces {
			if workspace, is := m.workspace(role); is {
				operators[workspace] = operators[workspace] || m.Operator
			}
		}
	}
	rights.Confined = !has(r.Viewers)
	for workspace, operator := range operators {
		if operator || rights.Confined { // otherwise it is viewed anyway
			rights.Grants = append(rights.Grants, Grant{workspace, operator})
		}
	}
	slices.SortFunc(rights.Grants, func(a, b Grant) int { return cmp.Compare(a.Workspace, b.Workspace) })
	if rights.Confined && len(rights.Grants) == 0 {
		return Rights{Confined: true}, false
	}
	return rights, true
}

// list splits a header or a claim of several roles.
func list(text string) (roles []string) {
	for role := range strings.SplitSeq(text, ",") {
		if role = strings.TrimSpace(role); role != "" {
			roles = append(roles, role)
		}
	}
	return roles
}

// Header takes the visitor's name and roles from headers that a proxy sets.
type Header struct {
	// Name and Roles are the headers' names. Roles holds roles or groups, separated by commas, so that none may contain
	// one.
	Name, Roles string
	// Proxies are the addresses of the proxies. Headers from elsewhere are ignored.
	Proxies []netip.Prefix
	Grants  Roles
}

// Visitor returns whom the proxy names. It is false if the request is not from a proxy, if a header is missing or there
// more than once, or if the roles allow nothing.
func (h *Header) Visitor(r *http.Request) (Visitor, bool) {
	names, roles := r.Header.Values(h.Name), r.Header.Values(h.Roles)
	if len(names) != 1 || names[0] == "" || len(roles) != 1 || !h.trusts(r.RemoteAddr) {
		return Visitor{}, false
	}
	rights, looks := h.Grants.grant(list(roles[0]))
	return Visitor{Name: names[0], Via: "proxy", Rights: rights}, looks
}

func (h *Header) trusts(remote string) bool {
	peer, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false
	}
	address := peer.Addr().Unmap().WithZone("")
	return slices.ContainsFunc(h.Proxies, func(p netip.Prefix) bool { return p.Contains(address) })
}

// pageStyle is the style of the pages that anyone may see. They load nothing, because everything below the pages' path
// takes a sign-in.
const pageStyle = `:root{color-scheme:light dark}` +
	`body{font:1rem/1.5 system-ui,sans-serif;margin:0 auto;max-width:40rem;padding:3rem 1rem;` +
	`color:#1b1f24;background:#fff}a{color:#0b57d0}h1{font-size:1.5rem}` +
	`@media(prefers-color-scheme:dark){body{color:#e6e8eb;background:#14171a}a{color:#8ab4f8}}`

var pageTemplate = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Heading}} · pgdispatch</title>
<style>` + pageStyle + `</style>
</head>
<body>
<main>
<h1>{{.Heading}}</h1>
<p>{{.Text}}</p>
{{range .Links}}<p><a href="{{.To}}">{{.Words}}</a></p>
{{end}}</main>
</body>
</html>
`))

// Page is what a browser shows before a sign-in and after it.
type Page struct {
	Heading, Text string
	Links         []Link
}

// Link is one of a Page.
type Link struct{ Words, To string }

// Write answers with the page. It can be stored by no cache and framed by no site.
func (p Page) Write(w http.ResponseWriter, code int) {
	sum := sha256.Sum256([]byte(pageStyle))
	header := w.Header()
	header.Set("Content-Type", "text/html; charset=utf-8")
	header.Set("Content-Security-Policy", "default-src 'none'; style-src 'sha256-"+
		base64.StdEncoding.EncodeToString(sum[:])+"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = pageTemplate.Execute(w, p) // fails only if the client is gone
}
