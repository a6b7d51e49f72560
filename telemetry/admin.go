package telemetry

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	nethttp "net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
)

const (
	// headerTimeout and idleTimeout bound what a client may keep open without asking anything.
	headerTimeout = 5 * time.Second
	idleTimeout   = time.Minute
	// stopTimeout bounds how long requests under way may take once Run is to end.
	stopTimeout = time.Second
)

// Admin serves the state of a replica by HTTP: /livez, /readyz, /metrics and /debug/pprof/. Its fields are set before Run and
// not changed after.
type Admin struct {
	// Listener is what is served; Run closes it.
	Listener net.Listener
	// Metrics is what /metrics shows.
	Metrics prometheus.Gatherer
	Health  *Health
	// Token opens /debug/pprof/ to who sends it as `Authorization: Bearer …`. "": it is open on loopback, and closed elsewhere.
	Token string
	Log   *slog.Logger
}

// Listen opens the address that Admin is to serve.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve health and metrics: %w", err)
	}
	return listener, nil
}

// Run serves until ctx is cancelled, and returns nil then.
func (a *Admin) Run(ctx context.Context) error {
	server := &nethttp.Server{
		Handler: a.Handler(), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(a.Log.Handler(), slog.LevelDebug),
	}
	a.Log.InfoContext(ctx, "Serving health and metrics", "address", a.Listener.Addr().String())
	var g errgroup.Group
	g.Go(func() error {
		if err := server.Serve(a.Listener); !errors.Is(err, nethttp.ErrServerClosed) {
			return fmt.Errorf("serve health and metrics: %w", err)
		}
		return nil
	})
	g.Go(func() error {
		<-ctx.Done()
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		if server.Shutdown(stopping) != nil {
			_ = server.Close() // who still asks is cut off
		}
		return nil
	})
	return g.Wait()
}

// Handler is what Run serves.
func (a *Admin) Handler() nethttp.Handler {
	mux := nethttp.NewServeMux()
	mux.HandleFunc("GET /livez", func(w nethttp.ResponseWriter, _ *nethttp.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", a.Health.serve)
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.Metrics, promhttp.HandlerOpts{ErrorLog: slog.NewLogLogger(a.Log.Handler(), slog.LevelWarn)}))
	for path, handler := range map[string]nethttp.HandlerFunc{
		"GET /debug/pprof/": pprof.Index, "GET /debug/pprof/profile": pprof.Profile,
		"GET /debug/pprof/symbol": pprof.Symbol, "GET /debug/pprof/trace": pprof.Trace,
	} {
		mux.HandleFunc(path, a.guarded(handler))
	}
	return mux
}

// guarded lets those in who have the token; without one, those who come over loopback by its name: a page in a browser on this
// machine comes by another.
func (a *Admin) guarded(next nethttp.HandlerFunc) nethttp.HandlerFunc {
	return func(w nethttp.ResponseWriter, r *nethttp.Request) {
		given, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		switch {
		case a.Token == "" && isLoopback(a.Listener.Addr().String()) && isLoopback(r.Host):
			next(w, r)
		case a.Token == "":
			nethttp.Error(w, "profiles are served on loopback only: set PGDISPATCH_ADMIN_TOKEN and send it as a bearer token", nethttp.StatusForbidden)
		case bearer && subtle.ConstantTimeCompare([]byte(given), []byte(a.Token)) == 1:
			next(w, r)
		default:
			w.Header().Set("WWW-Authenticate", "Bearer")
			nethttp.Error(w, "send PGDISPATCH_ADMIN_TOKEN as a bearer token", nethttp.StatusUnauthorized)
		}
	}
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
