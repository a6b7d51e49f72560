package signin

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
)

// asks returns whom a request with these headers is by.
func asks(h *Header, remote string, headers http.Header) (Visitor, bool) {
	r := httptest.NewRequest(http.MethodGet, "/ui/", nil)
	r.RemoteAddr, r.Header = remote, headers
	return h.Visitor(r)
}

func TestOnlyATrustedProxyNamesTheVisitor(t *testing.T) {
	t.Parallel()
	h := &Header{Name: "X-User", Roles: "X-Roles", Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"),
		netip.MustParsePrefix("::1/128")},
		Grants: Roles{Operators: []string{"ops"}, Viewers: []string{"staff"}}}
	ask := func(remote string, headers http.Header) (Visitor, bool) { return asks(h, remote, headers) }
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

// mapped are roles in all workspaces, in single ones, and by a pattern.
var mapped = Roles{Operators: []string{"sre"}, Viewers: []string{"staff"}, Workspaces: []Mapping{
	{Group: "cn=acme,ou=x", Workspace: "Acme, Inc."}, {Group: "Grüße aus Köln", Workspace: "北京", Operator: true},
	{Group: "team-{workspace}-ops", Workspace: "{workspace}", Operator: true},
	{Group: "team-{workspace}", Workspace: "shop {workspace}"}}}

func TestGroupsGiveRolesInWorkspaces(t *testing.T) {
	t.Parallel()
	confined := func(grants ...Grant) Rights { return Rights{Confined: true, Grants: grants} }
	for groups, want := range map[string]Rights{
		"":                      {Confined: true},
		"others|team-|ateam-x":  {Confined: true},
		"SRE|Staff":             {Confined: true},
		"sre|cn=acme,ou=x":      {Operator: true},
		"staff":                 {},
		"staff|cn=acme,ou=x":    {}, // which is viewed anyway
		"staff|Grüße aus Köln":  {Grants: []Grant{{"北京", true}}},
		"cn=acme,ou=x":          confined(Grant{"Acme, Inc.", false}),
		"team-a|team-b c|sales": confined(Grant{"shop a", false}, Grant{"shop b c", false}),
		"team-a-ops":            confined(Grant{"a", true}, Grant{"shop a-ops", false}),
		"team-x|team-x|team-x":  confined(Grant{"shop x", false}),
	} {
		got, looks := mapped.grant(strings.FieldsFunc(groups, func(r rune) bool { return r == '|' }))
		require.Equal(t, want, got, groups)
		require.Equal(t, !got.Confined || len(got.Grants) > 0, looks, groups)
	}
	require.True(t, Rights{}.Everywhere())
	require.False(t, Rights{}.Acts())
	require.True(t, confined(Grant{"a", true}).Acts())
	require.False(t, confined(Grant{"a", false}).Everywhere())
	require.False(t, Rights{Grants: []Grant{{"a", true}}}.Everywhere())
}

func TestAUserOfAThousandGroupsGetsTheRolesOfAll(t *testing.T) {
	t.Parallel()
	h := &Header{Name: "X-User", Roles: "X-Roles", Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		Grants: mapped}
	groups := []string{}
	for n := range 1000 {
		groups = append(groups, fmt.Sprint("team-", n))
	}
	ask := func(remote string, roles ...string) (Visitor, bool) {
		return asks(h, remote, http.Header{"X-User": {"anna"}, "X-Roles": roles})
	}
	v, is := ask("10.0.0.1:1", strings.Join(groups, ", "))
	require.True(t, is)
	require.Len(t, v.Grants, 1000)
	_, is = ask("192.0.2.1:1", "team-a")
	require.False(t, is, "not of the proxy")
	_, is = ask("10.0.0.1:1", "team-a", "team-b")
	require.False(t, is, "one header is of the client")
	_, is = ask("10.0.0.1:1", "cn=acme,ou=x")
	require.False(t, is, "a comma separates groups in a header")
	v, is = ask("10.0.0.1:1", "Grüße aus Köln")
	require.True(t, is)
	require.Equal(t, []Grant{{"北京", true}}, v.Grants)
}

func TestASessionHoldsRolesInWorkspaces(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	o, server, client := pages(t, p)
	o.Grants = mapped
	p.Claim(map[string]any{"groups": []string{"cn=acme,ou=x", "team-a-ops", "unrelated"}})
	code, text := get(t, client, server.URL+"/ui/signin")
	require.Equal(t, 200, code)
	require.Equal(t, "subject-1 {false true [{Acme, Inc. false} {a true} {shop a-ops false}]} true /ui/", text)

	groups := []string{"cn=acme,ou=x"}
	for n := range 1000 {
		groups = append(groups, fmt.Sprint("unrelated-", n))
	}
	p.Claim(map[string]any{"groups": groups})
	_, text = get(t, client, server.URL+"/ui/signin")
	require.Contains(t, text, "[{Acme, Inc. false}]", "groups that are not mapped take no room")
	for n := range 1000 {
		groups = append(groups, fmt.Sprint("team-", n))
	}
	p.Claim(map[string]any{"groups": groups})
	code, text = get(t, client, server.URL+"/ui/signin")
	require.Equal(t, 403, code)
	require.Contains(t, text, "Your account has roles in 1001 workspaces, which is more than a session can hold.")
}

func TestAnOlderReplicaDoesNotTakeAUserOfSomeWorkspacesForOneOfAll(t *testing.T) {
	t.Parallel()
	o := &OIDC{Key: []byte("0123456789abcdef0123456789abcdef"), RedirectURL: "https://a/", Path: "/ui/"}
	s := session{"anna", Rights{Confined: true, Grants: []Grant{{"a", false}}}}
	cookie := must.Get(o.sealed(sessionCookie, s.purpose(), time.Hour, s)).In(t)
	var old struct {
		Name     string
		Operator bool
	}
	require.False(t, sealer{o.Key}.open(sessionCookie, cookie.Value, time.Now(), &old))
	for _, all := range []Rights{{}, {Operator: true}} {
		s := session{"ben", all}
		cookie := must.Get(o.sealed(sessionCookie, s.purpose(), time.Hour, s)).In(t)
		require.True(t, sealer{o.Key}.open(sessionCookie, cookie.Value, time.Now(), &old), "but others stay signed in")
		require.Equal(t, all.Operator, old.Operator)
	}
}
