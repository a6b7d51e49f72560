package signin

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyATrustedProxyNamesTheVisitor(t *testing.T) {
	t.Parallel()
	h := &Header{Name: "X-User", Roles: "X-Roles", Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"),
		netip.MustParsePrefix("::1/128")},
		Grants: Roles{Operators: []string{"ops"}, Viewers: []string{"staff"}}}
	ask := func(remote string, headers http.Header) (Visitor, bool) {
		r := httptest.NewRequest(http.MethodGet, "/ui/", nil)
		r.RemoteAddr, r.Header = remote, headers
		return h.Visitor(r)
	}
	both := func(user, roles string) http.Header {
		return http.Header{"X-User": {user}, "X-Roles": {roles}}
	}
	for remote, trusted := range map[string]bool{"10.1.2.3:99": true, "[::1]:99": true, "[::ffff:10.1.2.3]:99": true,
		"11.0.0.1:99":       false,
		"[fe80::1%eth0]:99": false, "": false, "10.1.2.3": false} {
		v, is := ask(remote, both("anna", "staff, ops"))
		require.Equal(t, trusted, is, remote)
		if trusted {
			require.Equal(t, Visitor{Name: "anna", Via: "proxy", Rights: Rights{Operator: true}}, v)
		}
	}
	v, is := ask("10.0.0.1:1", both("ben", "staff"))
	require.True(t, is)
	require.False(t, v.Operator)
	for _, refused := range []http.Header{both("ben", "OPS"), both("ben", ""), both("", "ops"), {"X-User": {"ben"}},
		{"X-Roles": {"ops"}},
		{"X-User": {"ben", "anna"}, "X-Roles": {"ops"}}, {"X-User": {"ben"}, "X-Roles": {"staff", "ops"}},
		{"X-Forwarded-For": {"10.0.0.1"}}} {
		_, is := ask("10.0.0.1:1", refused)
		require.False(t, is, refused)
	}
}
