package replica

import (
	"crypto/rand"
	"log/slog"

	"github.com/pgdispatch/pgdispatch/internal/admin"
	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/operate/web"
	"github.com/pgdispatch/pgdispatch/internal/signin"
)

// addSignIn admits users whom a trusted proxy names or the provider signs in.
func addSignIn(server *admin.Server, c config.Config, log *slog.Logger) {
	s := c.SignIn
	grants := signin.Roles{Operators: s.Operators, Viewers: s.Viewers}
	for _, w := range s.Workspaces {
		grants.Workspaces = append(grants.Workspaces, signin.Mapping(w))
	}
	if s.Header != "" {
		header := &signin.Header{Name: s.Header, Roles: s.RoleHeader, Proxies: s.Proxies, Grants: grants}
		server.Visitors = append(server.Visitors, header.Visitor)
	}
	if s.Issuer == "" {
		return
	}
	key := []byte(s.SessionKey)
	if len(key) == 0 {
		key = []byte(rand.Text() + rand.Text())
	}
	server.SignIn = &signin.OIDC{
		Issuer: s.Issuer, ClientID: s.ClientID, ClientSecret: s.ClientSecret, RedirectURL: s.RedirectURL,
		RoleClaim: s.RoleClaim,
		Grants:    grants, Key: key, Path: web.Prefix, Log: log.With("component", "signin"),
	}
	server.Visitors = append(server.Visitors, server.SignIn.Visitor)
}
