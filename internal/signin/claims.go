package signin

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxFound is the maximum length of what the log says about a claim, in bytes.
const maxFound = 500

// nameOf returns the verified email address, else the subject, which the provider never reassigns. Users
// may choose preferred_username themselves.
func nameOf(claims map[string]any, subject string) string {
	if email, is := claims["email"].(string); is && email != "" && claims["email_verified"] == true {
		return email
	}
	return subject
}

// claimAt returns the claim with a name, which may have dots, or else the one at a path such as realm_access.roles. It
// is nil if there is none.
func claimAt(claims map[string]any, path string) any {
	if claim, is := claims[path]; is {
		return claim
	}
	for at, c := range path {
		if c != '.' {
			continue
		}
		if inner, is := claims[path[:at]].(map[string]any); is {
			if claim := claimAt(inner, path[at+1:]); claim != nil {
				return claim
			}
		}
	}
	return nil
}

func rolesOf(claim any) (roles []string) {
	switch c := claim.(type) {
	case string:
		return list(c)
	case []any:
		for _, one := range c {
			if role, is := one.(string); is {
				roles = append(roles, role)
			}
		}
	}
	return roles
}

// found describes the claim of the roles for the log, or which others there are.
func found(claims map[string]any, path string) string {
	claim := claimAt(claims, path)
	text := "roles: " + cmp.Or(strings.Join(rolesOf(claim), ", "), "none")
	if claim == nil {
		text = fmt.Sprintf("no claim %q, but %s", path, strings.Join(slices.Sorted(maps.Keys(claims)), ", "))
	}
	return text[:min(len(text), maxFound)]
}
