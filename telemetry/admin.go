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

// Admin serves the state of a replica by HTTP: /livez, /readyz, /metrics, /debug/pprof/ and the web view. Its fields are set before Run and
// not changed after.
type Admin struct {
	// Listener is what is served; Run closes it.
	Listener net.Listener
	// Metrics is what /metrics shows.
	Metrics prometheus.Gatherer
	Health  *Health
	// Pages is the web view, served at PagesPath and below; nil: there is none.
	Pages     nethttp.Handler
	PagesPath string
	// Token opens /debug/pprof/ and the pages to who sends it as `Authorization: Bearer …`, or as the password that a browser asks
	// for. "": they are open on loopback, and closed elsewhere.
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
		ErrorLog:    slog.NewLogLogger(a.Log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return ctx }, // a page that is live ends with Run
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
	if a.Pages != nil {
		mux.HandleFunc("GET "+a.PagesPath, a.guarded(a.Pages.ServeHTTP))
		mux.Handle("GET /{$}", nethttp.RedirectHandler(a.PagesPath, nethttp.StatusFound))
	}
	return mux
}

// guarded lets those in who have the token; without one, those who come over loopback by its name: a page in a browser on this
// machine comes by another.
func (a *Admin) guarded(next nethttp.HandlerFunc) nethttp.HandlerFunc {
	return func(w nethttp.ResponseWriter, r *nethttp.Request) {
		given, sent := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if _, password, basic := r.BasicAuth(); basic {
			given, sent = password, true
		}
		switch {
		case a.Token == "" && isLoopback(a.Listener.Addr().String()) && isLoopback(r.Host):
			next(w, r)
		case a.Token == "":
			nethttp.Error(w, "this is served on loopback only: set PGDISPATCH_ADMIN_TOKEN, and send it as a bearer token or as the password", nethttp.StatusForbidden)
		case sent && subtle.ConstantTimeCompare([]byte(given), []byte(a.Token)) == 1:
			next(w, r)
		default:
			w.Header().Set("WWW-Authenticate", `Basic realm="pgdispatch: any name, and PGDISPATCH_ADMIN_TOKEN as the password"`)
			nethttp.Error(w, "send PGDISPATCH_ADMIN_TOKEN as a bearer token, or as the password with any name", nethttp.StatusUnauthorized)
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
