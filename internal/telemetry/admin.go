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
	// headerTimeout and idleTimeout bound what a client may keep open without asking anything, bodyTimeout how long it may take to send
	// what belongs to a request, and writeTimeout how long to read the answer. A live page and a profile have bounds of their own.
	headerTimeout = 5 * time.Second
	idleTimeout   = time.Minute
	bodyTimeout   = 10 * time.Second
	writeTimeout  = 30 * time.Second
	// mostConnections are open at a time; for more, the idlest are closed.
	mostConnections = 128
	// mostScrapes is how many readings of /metrics are made at a time. Another is refused with 503.
	mostScrapes = 4
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
	// Pages is the web view for who may only look, served at PagesPath and below, and ActingPages for who may change something, too;
	// nil: there is none.
	Pages, ActingPages nethttp.Handler
	PagesPath          string
	// Token opens /debug/pprof/ and ActingPages to who sends it as `Authorization: Bearer …`, or as the password that a browser asks
	// for, and ViewToken opens Pages. Without any, Pages are open on loopback; without Token, so are profiles.
	Token, ViewToken string
	Log              *slog.Logger
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
	server := a.server(ctx)
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

// server bounds what any client can hold, whether it has a token or not.
func (a *Admin) server(ctx context.Context) *nethttp.Server {
	open := &connections{most: mostConnections}
	return &nethttp.Server{
		Handler: a.Handler(), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, WriteTimeout: writeTimeout,
		ConnState:   open.changed,
		ErrorLog:    slog.NewLogLogger(a.Log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return ctx }, // a page that is live ends with Run
	}
}

// boundBody bounds how long a client may take to send a request's body. The server's ReadTimeout would end a long answer, too.
func boundBody(next nethttp.Handler, timeout time.Duration) nethttp.Handler {
	return nethttp.HandlerFunc(func(w nethttp.ResponseWriter, r *nethttp.Request) {
		if r.ContentLength != 0 {
			_ = nethttp.NewResponseController(w).SetReadDeadline(time.Now().Add(timeout)) // only a test's connection knows none
		}
		next.ServeHTTP(w, r)
	})
}

// Handler is what Run serves.
func (a *Admin) Handler() nethttp.Handler {
	mux := nethttp.NewServeMux()
	mux.HandleFunc("GET /livez", func(w nethttp.ResponseWriter, _ *nethttp.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", a.Health.serve)
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.Metrics, promhttp.HandlerOpts{MaxRequestsInFlight: mostScrapes, ErrorLog: slog.NewLogLogger(a.Log.Handler(), slog.LevelWarn)}))
	for path, handler := range map[string]nethttp.HandlerFunc{
		"GET /debug/pprof/": pprof.Index, "GET /debug/pprof/profile": pprof.Profile,
		"GET /debug/pprof/symbol": pprof.Symbol, "GET /debug/pprof/trace": pprof.Trace,
	} {
		mux.HandleFunc(path, a.profile(handler))
	}
	if a.Pages != nil {
		mux.HandleFunc(a.PagesPath, a.page)
		mux.Handle("GET /{$}", nethttp.RedirectHandler(a.PagesPath, nethttp.StatusFound))
	}
	return boundBody(mux, bodyTimeout)
}

// profile lets those in who have the token; where none is set, those on this machine.
func (a *Admin) profile(next nethttp.HandlerFunc) nethttp.HandlerFunc {
	return func(w nethttp.ResponseWriter, r *nethttp.Request) {
		if a.sent(r, a.Token) || a.Token == "" && a.local(r) {
			next(w, r)
			return
		}
		a.refuse(w, a.Token == "")
	}
}

// page lets those act who have the token, and those look who have the other one; where neither is set, those on this machine look.
// Who came over loopback may have been sent there by any page in a browser, so nobody acts without a token.
func (a *Admin) page(w nethttp.ResponseWriter, r *nethttp.Request) {
	open := a.Token == "" && a.ViewToken == ""
	switch {
	case a.sent(r, a.Token):
		a.ActingPages.ServeHTTP(w, r)
	case a.sent(r, a.ViewToken), open && a.local(r):
		a.Pages.ServeHTTP(w, r)
	default:
		a.refuse(w, open)
	}
}

// sent says whether a token that is set came with a request, as a bearer token or as a password.
func (a *Admin) sent(r *nethttp.Request, token string) bool {
	given, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if _, password, basic := r.BasicAuth(); basic {
		given, is = password, true
	}
	return is && token != "" && subtle.ConstantTimeCompare([]byte(given), []byte(token)) == 1
}

// local says whether a request came over loopback by its name: a page in a browser on this machine comes by another.
func (a *Admin) local(r *nethttp.Request) bool {
	return isLoopback(a.Listener.Addr().String()) && isLoopback(r.Host)
}

func (a *Admin) refuse(w nethttp.ResponseWriter, noToken bool) {
	if noToken {
		nethttp.Error(w, "this is served on loopback only: set PGDISPATCH_ADMIN_TOKEN, and send it as a bearer token or as the password", nethttp.StatusForbidden)
		return
	}
	w.Header().Set("WWW-Authenticate", `Basic realm="pgdispatch: your name, and PGDISPATCH_ADMIN_TOKEN as the password", charset="UTF-8"`)
	nethttp.Error(w, "send PGDISPATCH_ADMIN_TOKEN as a bearer token, or as the password with your name; to look at pages, PGDISPATCH_VIEW_TOKEN will do", nethttp.StatusUnauthorized)
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
