package replica

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pgdispatch/pgdispatch/internal/admin"
	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/web"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/signin"
	"github.com/pgdispatch/pgdispatch/internal/telemetry"
	"github.com/pgdispatch/pgdispatch/sweeper"
)

// viewConnections is the size of the web view's own pool, so that viewers take no connections from the replica. A
// separate operator role gets a second pool of this size.
const viewConnections = 2

// observed runs a replica within its telemetry. Telemetry starts before the database is reached, so that /readyz can
// report what the replica waits for, and ends after the last span is exported.
func (r *replica) observed(ctx context.Context, run func(context.Context, *admin.Health) error) error {
	c, log := r.Config, r.log
	t, err := telemetry.New(ctx, telemetry.Options{
		Version: r.version, Replica: r.name, Scraped: c.AdminAddr != "", LookupEnv: os.LookupEnv,
		Log: log.With("component", "telemetry"),
	})
	if err != nil {
		return err
	}
	r.telemetry, t.Answered = t, r.answered
	defer func() {
		if err := t.Shutdown(context.WithoutCancel(ctx)); err != nil {
			log.Warn("Cannot export telemetry", "error", postgres.Redact(err))
		}
	}()
	health := admin.NewHealth("database: not reached yet")
	if c.AdminAddr == "" {
		return run(ctx, health)
	}
	listener, err := admin.Listen(ctx, c.AdminAddr)
	if err != nil {
		return fmt.Errorf("PGDISPATCH_ADMIN_ADDR is %q: %w", c.AdminAddr, err)
	}
	defer listener.Close()
	site, closeSite, err := openSite(ctx, c, log.With("component", "web"))
	if err != nil {
		return err
	}
	defer closeSite()
	server := &admin.Server{
		Listener: listener, Metrics: t.Registry, Health: health, Token: c.AdminToken, ViewToken: c.ViewToken,
		Log:   log.With("component", "admin"),
		Pages: site.Handler(), ActingPages: site.Acting(), PagesPath: web.Prefix, Base: c.AdminBase,
	}
	if c.AdminCertFile != "" {
		server.Certificate = &admin.Certificate{CertFile: c.AdminCertFile, KeyFile: c.AdminKeyFile, Log: server.Log}
	}
	addSignIn(server, c, log)
	r.admin.Store(server)

	// The admin server runs while the replica drains, and stops last.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	running, stopRunning := context.WithCancel(ctx)
	defer stopRunning()
	var g errgroup.Group
	g.Go(func() error {
		defer stopRunning() // without the admin server the replica would look dead
		return server.Run(serving)
	})
	err = run(running, health)
	stop()
	return errors.Join(err, g.Wait())
}

// openSite creates the web view with its pools. They connect on first use.
func openSite(ctx context.Context, c config.Config, log *slog.Logger) (*web.Site, func(), error) {
	pool, err := c.Database.OpenPool(ctx, viewConnections, viewSettings(c))
	if err != nil {
		return nil, nil, err
	}
	operator, closeAll := pool, pool.Close
	if c.OperatorURL != "" {
		if operator, err = c.Operator().OpenPool(ctx, viewConnections, viewSettings(c)); err != nil {
			pool.Close()
			return nil, nil, err
		}
		closeAll = func() { pool.Close(); operator.Close() }
	}
	site := web.New(&operate.Store{DB: pool}, &operate.Store{DB: operator})
	site.TemporalUI, site.Base, site.Log = c.TemporalUI, c.AdminBase, log
	return site, closeAll, nil
}

// temporalReady returns why Temporal starts no workflows for this replica and since when, or nil. If the codec server
// is the reason, its own check says so.
func (r *replica) temporalReady() error {
	state, why := r.state(), r.temporalAway()
	since := ""
	if state.BreakerSince != nil {
		since = ", since " + state.BreakerSince.Format(time.RFC3339)
	}
	switch {
	case state.CodecAway:
		return nil
	case why != nil:
		return fmt.Errorf("%w%s", why, since)
	case state.BreakerOpen:
		return fmt.Errorf("workflows are not accepted; starts are paused and probed%s: %s", since, state.BreakerCause)
	}
	return nil
}

// temporalAway returns why Temporal cannot be used, as far as the codec server and probes have shown, or nil.
func (r *replica) temporalAway() error {
	err := r.reach.Err()
	switch {
	case r.codec.Failure() != nil:
		return postgres.Redact(r.codec.Failure())
	case err != nil:
		return fmt.Errorf("it does not answer: %w", postgres.Redact(err))
	case r.reach.Refused() != nil:
		return postgres.Redact(r.reach.Refused())
	}
	return nil
}

// observe registers what telemetry and health report.
func (r *replica) observe(health *admin.Health) error {
	checks := []admin.Check{
		{Name: "database", Do: func(ctx context.Context) error { return databaseReady(ctx, r.database) }},
		{Name: "codec", Do: func(context.Context) error {
			if failure := r.codec.Failure(); failure != nil {
				return fmt.Errorf("%w: %s", failure, failure.Remedy())
			}
			return nil
		}},
		{Name: "temporal", Do: func(context.Context) error { return r.temporalReady() }},
	}
	checks = append(checks, admin.Check{Name: "claims", Do: func(context.Context) error {
		return r.dispatch.Failing()
	}})
	recovery, housekeeping := sweeper.Parts()
	checks = append(checks,
		admin.Check{Name: "upkeep", Do: func(context.Context) error { return r.upkeep.err(recovery) }},
		admin.Check{Name: "upkeep", Degrades: true, Do: func(context.Context) error { return r.upkeep.err(housekeeping) }})
	gauges := &telemetry.Gauges{Queue: &operate.Store{DB: r.database}, Workspaces: r.MetricsWorkspaces,
		Limits: r.MetricsLimits, Workers: r.Workers, Watches: r.watcher.Waiting, Ready: health.Ready,
		Failing: r.upkeep.failing}
	if r.listener != nil {
		gauges.Listening, gauges.OnDuty = r.listener.Connected, r.gate.OnDuty
		checks = append(checks, admin.Check{Name: "listener", Do: func(context.Context) error {
			if !r.listener.Connected() {
				return errors.New("not listening; only polls wake this replica")
			}
			return nil
		}})
	}
	health.Working(checks...)
	return r.telemetry.Observe(gauges)
}

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
		RoleClaim: s.RoleClaim, Scopes: s.Scopes,
		Grants: grants, Key: key, Path: c.AdminBase + web.Prefix, Log: log.With("component", "signin"),
	}
	server.Visitors = append(server.Visitors, server.SignIn.Visitor)
}
