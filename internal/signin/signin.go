// Package signin tells who opens the web view: a user whom a trusted proxy names, or who signed in with OpenID Connect.
package signin

import (
	"context"
	"slices"
	"strings"
)

// Visitor is a user who may see the pages.
type Visitor struct {
	// Name is as the proxy or the provider says, and Via how it is known: "proxy" or "oidc".
	Name, Via string
	// Operator reports whether the visitor may also make changes.
	Operator bool
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

// Roles says which roles or groups make a user an operator or a viewer. Names are compared exactly.
type Roles struct{ Operators, Viewers []string }

// grant returns whether a user with these roles may view, and whether they may make changes.
func (r Roles) grant(roles []string) (looks, acts bool) {
	has := func(names []string) bool {
		return slices.ContainsFunc(roles, func(role string) bool { return slices.Contains(names, role) })
	}
	acts = has(r.Operators)
	return acts || has(r.Viewers), acts
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
