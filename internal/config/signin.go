package config

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// SignIn configures who may open the web view without a token.
type SignIn struct {
	Header, RoleHeader string         // headers are ignored if empty
	Proxies            []netip.Prefix // whose headers are trusted
	Operators, Viewers []string       // roles that may change things, and roles that may only view
	Workspaces         []WorkspaceRole

	Issuer, ClientID, ClientSecret, RedirectURL, RoleClaim, SessionKey string // no OpenID Connect if Issuer is empty

	Scopes []string
}

// WorkspaceRole gives a group a role in one workspace, or with workspacePlaceholder in those that the group names.
type WorkspaceRole struct {
	Group, Workspace string
	Operator         bool
}

// callbackPath is where the provider redirects users to.
const callbackPath = "/ui/signin/callback"

var signInOptions = []Option{
	{"auth-header", "PGDISPATCH_AUTH_HEADER", "",
		"header in which a trusted proxy names the visitor, such as X-Forwarded-User; disabled if empty",
		func(c *Config, v string) error { return parseHeader(v, &c.SignIn.Header) }},
	{"auth-role-header", "PGDISPATCH_AUTH_ROLE_HEADER", "",
		"header in which it names their roles or groups, separated by commas",
		func(c *Config, v string) error { return parseHeader(v, &c.SignIn.RoleHeader) }},
	{"trusted-proxies", "PGDISPATCH_TRUSTED_PROXIES", "",
		"addresses or networks of trusted proxies, such as 10.0.0.7,10.1.0.0/16",
		func(c *Config, v string) error { return parsePrefixes(v, &c.SignIn.Proxies) }},
	{"auth-operators", "PGDISPATCH_AUTH_OPERATORS", "operator",
		"roles, separated by commas, that may view and act",
		func(c *Config, v string) error { return parseRoles(v, &c.SignIn.Operators) }},
	{"auth-viewers", "PGDISPATCH_AUTH_VIEWERS", "viewer", "roles, separated by commas, that may only view",
		func(c *Config, v string) error { return parseRoles(v, &c.SignIn.Viewers) }},
	{"auth-workspaces", "PGDISPATCH_AUTH_WORKSPACES", "",
		"roles in single workspaces: group=viewer@workspace or group=operator@workspace, by ID or name, " +
			"separated by commas; {workspace} in both stands for any",
		func(c *Config, v string) error { return parseWorkspaceRoles(v, &c.SignIn.Workspaces) }},
	{"oidc-issuer", "PGDISPATCH_OIDC_ISSUER", "",
		"URL of the OpenID Connect provider that signs users in; disabled if empty",
		func(c *Config, v string) error { return parseSafeURL(v, &c.SignIn.Issuer) }},
	{"oidc-client-id", "PGDISPATCH_OIDC_CLIENT_ID", "", "client ID at that provider",
		func(c *Config, v string) error { c.SignIn.ClientID = v; return nil }},
	{"oidc-client-secret", "PGDISPATCH_OIDC_CLIENT_SECRET", "", "client secret at that provider",
		func(c *Config, v string) error { c.SignIn.ClientSecret = v; return nil }},
	{"oidc-redirect-url", "PGDISPATCH_OIDC_REDIRECT_URL", "",
		"external URL of this web view's /ui/signin/callback",
		func(c *Config, v string) error { return parseRedirectURL(v, &c.SignIn.RedirectURL) }},
	{"oidc-scopes", "PGDISPATCH_OIDC_SCOPES", "openid,email,profile",
		"scopes to ask that provider for, separated by commas, with openid",
		func(c *Config, v string) error { return parseScopes(v, &c.SignIn.Scopes) }},
	{"oidc-role-claim", "PGDISPATCH_OIDC_ROLE_CLAIM", "groups",
		"claim of the ID token with the visitor's roles or groups, or the path to it, such as realm_access.roles",
		func(c *Config, v string) error { c.SignIn.RoleClaim = v; return nil }},
	{"oidc-session-key", "PGDISPATCH_OIDC_SESSION_KEY", "",
		"key that signs session cookies, at least 32 characters, the same for all replicas; " +
			"if empty, a new one at each start",
		func(c *Config, v string) error { return parseSessionKey(v, &c.SignIn.SessionKey) }},
}

func parseHeader(text string, into *string) error {
	*into = textproto.CanonicalMIMEHeaderKey(text)
	if strings.ContainsFunc(text, func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) {
		return errors.New("it must be the name of a header: letters, digits and hyphens")
	}
	if *into == "Authorization" || *into == "Cookie" {
		return errors.New("it must be a header that browsers do not send by themselves")
	}
	return nil
}

func parsePrefixes(text string, into *[]netip.Prefix) error {
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		prefix, err := netip.ParsePrefix(part)
		if address, plain := netip.ParseAddr(part); plain == nil {
			prefix, err = netip.PrefixFrom(address, address.BitLen()), nil
		}
		if err != nil {
			return fmt.Errorf("%.80q must be an address or a network, such as 10.0.0.7 or 10.1.0.0/16", part)
		}
		*into = append(*into, prefix.Masked())
	}
	return nil
}

func parseRoles(text string, into *[]string) error {
	for role := range strings.SplitSeq(text, ",") {
		if role = strings.TrimSpace(role); role != "" {
			*into = append(*into, role)
		}
	}
	return nil
}

func parseScopes(text string, into *[]string) error {
	*into = strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
	if text != "" && !slices.Contains(*into, "openid") {
		return errors.New("it must contain openid")
	}
	return nil
}

// parseSafeURL accepts HTTPS, and HTTP on loopback.
func parseSafeURL(text string, into *string) error {
	*into = text
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("it must be a URL such as https://login.example.com")
	}
	ip := net.ParseIP(u.Hostname())
	if local := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback(); u.Scheme != "https" && (u.Scheme != "http" ||
		!local) {
		return errors.New("it must begin with https://, except on loopback")
	}
	return nil
}

func parseRedirectURL(text string, into *string) error {
	err := parseSafeURL(text, into)
	if err == nil && text != "" && !strings.HasSuffix(text, callbackPath) {
		err = fmt.Errorf("it must end with %s", callbackPath)
	}
	return err
}

func parseSessionKey(text string, into *string) error {
	*into = text
	if text != "" && len(text) < 2*minTokenLength {
		return fmt.Errorf("it must have %d characters or more", 2*minTokenLength)
	}
	return nil
}

// checkSignIn refuses settings that name half of a way to sign in.
func (c Config) checkSignIn() error {
	s := c.SignIn
	var faults []error
	add := func(is bool, text string) {
		if is {
			faults = append(faults, errors.New(text))
		}
	}
	headers := s.Header != "" || s.RoleHeader != "" || len(s.Proxies) > 0
	add(headers && s.Header == "",
		"PGDISPATCH_AUTH_HEADER is empty: a trusted proxy needs a header that names the visitor")
	add(headers && s.RoleHeader == "",
		"PGDISPATCH_AUTH_ROLE_HEADER is empty: PGDISPATCH_AUTH_HEADER needs a header with the visitor's roles")
	add(headers && len(s.Proxies) == 0, "PGDISPATCH_TRUSTED_PROXIES is empty: anybody could send PGDISPATCH_AUTH_HEADER")
	add(headers && s.Header != "" && s.Header == s.RoleHeader,
		"PGDISPATCH_AUTH_ROLE_HEADER is the same as PGDISPATCH_AUTH_HEADER")
	faults = append(faults, s.checkWorkspaces()...)
	oidc := s.Issuer != "" || s.ClientID != "" || s.ClientSecret != "" || s.RedirectURL != ""
	add(oidc && s.Issuer == "", "PGDISPATCH_OIDC_ISSUER is empty: the other PGDISPATCH_OIDC_ settings need it")
	add(oidc && s.ClientID == "", "PGDISPATCH_OIDC_CLIENT_ID is empty: PGDISPATCH_OIDC_ISSUER needs it")
	add(oidc && s.ClientSecret == "",
		"PGDISPATCH_OIDC_CLIENT_SECRET is empty: PGDISPATCH_OIDC_ISSUER needs it, or the file "+
			"PGDISPATCH_OIDC_CLIENT_SECRET_FILE names")
	add(oidc && s.RedirectURL == "", "PGDISPATCH_OIDC_REDIRECT_URL is empty: PGDISPATCH_OIDC_ISSUER needs it")
	add(c.AdminBase != "" && s.RedirectURL != "" && !strings.HasSuffix(s.RedirectURL, c.AdminBase+callbackPath),
		"PGDISPATCH_OIDC_REDIRECT_URL must end with "+c.AdminBase+callbackPath+": see PGDISPATCH_ADMIN_PATH_PREFIX")
	add(oidc && s.RoleClaim == "", "PGDISPATCH_OIDC_ROLE_CLAIM is empty: PGDISPATCH_OIDC_ISSUER needs it")
	return errors.Join(faults...)
}

// workspacePlaceholder in a group and its workspace stands for the same text in both.
const workspacePlaceholder = "{workspace}"

// parseWorkspaceRoles reads entries such as group=viewer@workspace, separated by commas or lines as in a CSV file.
func parseWorkspaceRoles(text string, into *[]WorkspaceRole) error {
	if !utf8.ValidString(text) || strings.Contains(text, "\x00") {
		return errors.New("it must be UTF-8 text")
	}
	lines := csv.NewReader(strings.NewReader(text))
	lines.FieldsPerRecord, lines.TrimLeadingSpace = -1, true
	for {
		entries, err := lines.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return errors.New(`a double quote must begin and end an entry, such as "cn=ops,ou=groups=operator@Acme"; ` +
				"write it twice inside one")
		}
		for _, entry := range entries {
			if entry = strings.TrimSpace(entry); entry == "" {
				continue
			}
			role, err := parseWorkspaceRole(entry)
			if err != nil {
				return fmt.Errorf("%.80q %w", entry, err)
			}
			*into = append(*into, role)
		}
	}
}

func parseWorkspaceRole(entry string) (role WorkspaceRole, err error) {
	const viewer, operator = "=viewer@", "=operator@"
	separator := viewer
	if role.Operator = strings.Contains(entry, operator); role.Operator {
		separator = operator
	}
	group, workspace, _ := strings.Cut(entry, separator)
	role.Group, role.Workspace = strings.TrimSpace(group), strings.TrimSpace(workspace)
	in, out := strings.Count(role.Group, workspacePlaceholder), strings.Count(role.Workspace, workspacePlaceholder)
	switch {
	case strings.Count(entry, viewer)+strings.Count(entry, operator) != 1 || role.Group == "" || role.Workspace == "":
		return role, errors.New("must be group=viewer@workspace or group=operator@workspace; " +
			"put an entry with a comma in double quotes")
	case in != out || in > 1:
		return role, errors.New("must have {workspace} once in the group and once in the workspace, or in neither")
	}
	return role, nil
}

// checkWorkspaces refuses roles that have no effect.
func (s SignIn) checkWorkspaces() (faults []error) {
	if len(s.Workspaces) > 0 && s.Header == "" && s.Issuer == "" {
		faults = append(faults, errors.New("PGDISPATCH_AUTH_WORKSPACES has no effect: set PGDISPATCH_AUTH_HEADER or "+
			"PGDISPATCH_OIDC_ISSUER, so that users sign in"))
	}
	for _, w := range s.Workspaces {
		everywhere := ""
		switch {
		case slices.Contains(s.Operators, w.Group):
			everywhere = "PGDISPATCH_AUTH_OPERATORS"
		case !w.Operator && slices.Contains(s.Viewers, w.Group):
			everywhere = "PGDISPATCH_AUTH_VIEWERS"
		default:
			continue
		}
		faults = append(faults, fmt.Errorf("PGDISPATCH_AUTH_WORKSPACES gives %.80q a role in %.80q that it has in all "+
			"workspaces: remove it there, or from %s", w.Group, w.Workspace, everywhere))
	}
	return faults
}
