// Package signin tells who opens the web view: a user whom a trusted proxy names, or who signed in with OpenID Connect.
package signin

import (
	"cmp"
	"context"
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
