package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/dispatch"
	"github.com/pgdispatch/pgdispatch/internal/operate/web"
	"github.com/pgdispatch/pgdispatch/internal/telemetry"
	"github.com/pgdispatch/pgdispatch/sql/migrate"
)

// viewConnections is the size of the web view's own pool, so that viewers take no connections from the replica. A
// separate operator role gets a second pool of this size.
const viewConnections = 2

// minTokenLength makes tokens hard to guess.
const minTokenLength = 16

// observed runs a replica within its telemetry. Telemetry starts before the database is reached, so that /readyz can
// report what the replica waits for, and ends after the last span is exported.
func observed(ctx context.Context, c config, owner string, log *slog.Logger, run func(context.Context, *telemetry.Telemetry, *telemetry.Health) error) error {
	t, err := telemetry.New(ctx, telemetry.Options{
		Version: buildVersion(), Replica: owner, Scraped: c.adminAddr != "", LookupEnv: os.LookupEnv, Log: log.With("component", "telemetry"),
	})
	if err != nil {
		return err
	}
	defer func() {
		if err := t.Shutdown(context.WithoutCancel(ctx)); err != nil {
			log.Warn("Cannot export telemetry", "error", redact(err))
		}
	}()
	health := telemetry.NewHealth("database: not reached yet")
	if c.adminAddr == "" {
		return run(ctx, t, health)
	}
	listener, err := telemetry.Listen(ctx, c.adminAddr)
	if err != nil {
		return fmt.Errorf("PGDISPATCH_ADMIN_ADDR is %q: %w", c.adminAddr, err)
	}
	defer listener.Close()
	site, closeSite, err := openSite(ctx, c, log.With("component", "web"))
	if err != nil {
		return err
	}
	defer closeSite()
	admin := &telemetry.Admin{
		Listener: listener, Metrics: t.Registry, Health: health, Token: c.adminToken, ViewToken: c.viewToken, Log: log.With("component", "admin"),
		Pages: site.Handler(), ActingPages: site.Acting(), PagesPath: web.Prefix,
	}

	// The admin server runs while the replica drains, and stops last.
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	running, stopRunning := context.WithCancel(ctx)
	defer stopRunning()
	var g errgroup.Group
	g.Go(func() error {
		defer stopRunning() // without the admin server the replica would look dead
		return admin.Run(serving)
	})
	err = run(running, t, health)
	stop()
	return errors.Join(err, g.Wait())
}

// openSite creates the web view with its pools. They connect on first use.
func openSite(ctx context.Context, c config, log *slog.Logger) (*web.Site, func(), error) {
	pool, err := openPool(ctx, c, viewConnections, viewSettings(c))
	if err != nil {
		return nil, nil, err
	}
	site := &web.Site{Read: &claim.Store{Pool: pool}, Change: &claim.Store{Pool: pool}, TemporalUI: c.temporalUI, Log: log}
	if c.operatorURL == "" {
		return site, pool.Close, nil
	}
	operator, err := openPool(ctx, c.asOperator(), viewConnections, viewSettings(c))
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	site.Change = &claim.Store{Pool: operator}
	return site, func() { pool.Close(); operator.Close() }, nil
}

// observe registers what telemetry and health report.
func (r *replica) observe(t *telemetry.Telemetry, health *telemetry.Health, pool *pgxpool.Pool) error {
	checks := []telemetry.Check{
		{Name: "database", Do: func(ctx context.Context) error { return databaseReady(ctx, pool) }},
		{Name: "temporal", Do: func(context.Context) error {
			if t.BreakerOpen() {
				return errors.New("it does not take workflows; starting is paused, and probed")
			}
			return nil
		}},
	}
	checks = append(checks, telemetry.Check{Name: "claims", Do: func(context.Context) error { return r.dispatch.Failing() }})
	gauges := &telemetry.Gauges{Queue: r.store, Workspaces: r.metricsWorkspaces, Workers: r.workers, Ready: health.Ready}
	if r.listener != nil {
		gauges.Listening, gauges.OnDuty = r.listener.Connected, r.gate.OnDuty
		checks = append(checks, telemetry.Check{Name: "listener", Do: func(context.Context) error {
			if !r.listener.Connected() {
				return errors.New("it does not listen; wake-ups come from the poll")
			}
			return nil
		}})
	}
	health.Working(checks...)
	if t == nil {
		return nil
	}
	return t.Observe(gauges)
}

// databaseReady checks that the database answers and has the schema that this binary needs.
func databaseReady(ctx context.Context, pool *pgxpool.Pool) error {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return redact(err)
	}
	defer conn.Release()
	state, err := migrate.Status(ctx, conn.Conn())
	if err != nil {
		return redact(err)
	}
	if state.Current < state.Newest {
		return schemaTooOld(state)
	}
	return nil
}

func schemaTooOld(state migrate.State) error {
	if err := state.Err(); err != nil {
		return err
	}
	return fmt.Errorf("the schema is at version %d and this pgdispatch needs %d: run `pgdispatch migrate up`", state.Current, state.Newest)
}

func parseAddress(text string, into *string) error {
	if text != "" {
		if _, port, err := net.SplitHostPort(text); err != nil || port == "" {
			return errors.New("it must be host:port, such as 127.0.0.1:9464 or :9464; port 0 takes any that is free")
		}
	}
	*into = text
	return nil
}

func parseToken(text string, into *string) error {
	if text != "" && len(text) < minTokenLength {
		return fmt.Errorf("it must have %d characters or more", minTokenLength)
	}
	*into = text
	return nil
}

// checkTokens refuses one token for both purposes, because the view token is shared more freely.
func (c config) checkTokens() error {
	if c.viewToken != "" && c.viewToken == c.adminToken {
		return errors.New("configuration: PGDISPATCH_VIEW_TOKEN is the same as PGDISPATCH_ADMIN_TOKEN: who has it could act; make another")
	}
	return nil
}

func parseUIURL(text string, into *string) error {
	if text != "" {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return errors.New("it must be a URL such as http://localhost:8233 or https://cloud.temporal.io, with no password and no query")
		}
	}
	*into = text
	return nil
}

// outcomeName returns the metric label for a start's result.
func outcomeName(err error) string {
	if errors.Is(err, dispatch.ErrForgotten) {
		return "forgotten"
	}
	return dispatch.Classify(err).String()
}
