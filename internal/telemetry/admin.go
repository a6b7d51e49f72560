package telemetry

import (
	"context"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pgdispatch/pgdispatch/internal/serve"
	"github.com/pgdispatch/pgdispatch/internal/signin"
)

const (
	// headerTimeout and idleTimeout bound how long a client may keep a connection open without a request. bodyTimeout
	// bounds how long it may take to send a request's body, and writeTimeout how long to read the response. Live pages
	// and profiles have their own bounds.
	headerTimeout = 5 * time.Second
	idleTimeout   = time.Minute
	bodyTimeout   = 10 * time.Second
	writeTimeout  = 30 * time.Second
	// mostConnections is the number of connections open at a time. Beyond it, the longest idle ones are closed.
	mostConnections = 128
	// mostScrapes is the number of concurrent scrapes of /metrics. Further ones are refused with 503.
	mostScrapes = 4
	// stopTimeout bounds how long requests in flight may take once Run's context is cancelled.
	stopTimeout = time.Second
)

// Admin serves the state of a replica over HTTP: /livez, /readyz, /metrics, /debug/pprof/ and the web view. Set its
// fields before Run and do not change them afterwards; SetTokens changes the tokens.
type Admin struct {
	// Listener accepts the connections. Run closes it.
	Listener net.Listener
	// Metrics is served at /metrics.
	Metrics prometheus.Gatherer
	Health  *Health
	// Pages is the read-only web view, served at PagesPath and below. ActingPages is the web view for those who may
	// also change things. Nil disables the web view.
	Pages, ActingPages http.Handler
	PagesPath          string
	// Token grants access to /debug/pprof/ and ActingPages, ViewToken to Pages. Clients send either as a bearer token
	// or as the password of basic authentication. If both are empty, Pages is open on loopback. If Token is empty, so
	// are profiles.
	Token, ViewToken string
	// Visitors tell who sends a request without a token. If there are any, nothing is open on loopback.
	Visitors []func(*http.Request) (signin.Visitor, bool)
	// SignIn signs people in. Nil disables it.
	SignIn *signin.OIDC
	Log    *slog.Logger

	changed atomic.Pointer[adminTokens]
}

// Listen opens the TCP listener for Admin.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve health and metrics: %w", err)
	}
	return listener, nil
}

// Run serves until ctx is cancelled, then returns nil. Requests in flight get one second to finish.
func (a *Admin) Run(ctx context.Context) error {
	a.Log.InfoContext(ctx, "Serving health and metrics", "address", a.Listener.Addr().String())
	if err := serve.Run(ctx, a.server(ctx), a.Listener, mostConnections, stopTimeout); err != nil {
		return fmt.Errorf("serve health and metrics: %w", err)
	}
	return nil
}

// server bounds what any client can hold, with or without a token.
func (a *Admin) server(ctx context.Context) *http.Server {
	return &http.Server{
		Handler: a.Handler(), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, WriteTimeout: writeTimeout,
		ErrorLog:    slog.NewLogLogger(a.Log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return ctx }, // ends live pages with Run
	}
}

// boundBody bounds how long a client may take to send a request's body. The server's ReadTimeout would also end long
// responses.
func boundBody(next http.Handler, timeout time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(timeout)) // unsupported only in tests
		}
		next.ServeHTTP(w, r)
	})
}

// Handler returns the handler that Run serves.
func (a *Admin) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", a.Health.serve)
	mux.Handle("GET /metrics",
		promhttp.HandlerFor(a.Metrics,
			promhttp.HandlerOpts{MaxRequestsInFlight: mostScrapes,
				ErrorLog: slog.NewLogLogger(a.Log.Handler(), slog.LevelWarn)}))
	for path, handler := range map[string]http.HandlerFunc{
		"GET /debug/pprof/": pprof.Index, "GET /debug/pprof/profile": pprof.Profile,
		"GET /debug/pprof/symbol": pprof.Symbol, "GET /debug/pprof/trace": pprof.Trace,
	} {
		mux.HandleFunc(path, a.profile(handler))
	}
	if a.Pages != nil {
		mux.HandleFunc(a.PagesPath, a.page)
		a.signIn(mux)
		mux.Handle("GET /{$}", http.RedirectHandler(a.PagesPath, http.StatusFound))
	}
	return boundBody(mux, bodyTimeout)
}

// profile requires the token. If no token is set, it requires loopback.
func (a *Admin) profile(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		token := a.tokens().act
		if a.sent(r, token) || token == "" && len(a.Visitors) == 0 && a.local(r) {
			next(w, r)
			return
		}
		a.refuse(w, token == "")
	}
}

// page serves ActingPages to requests with Token and Pages to requests with ViewToken. If neither is set, it serves
// Pages on loopback. Any site open in a local browser can send requests over loopback, so acting always requires Token.
func (a *Admin) page(w http.ResponseWriter, r *http.Request) {
	tokens := a.tokens()
	open := tokens == (adminTokens{}) && len(a.Visitors) == 0
	visitor, known := a.visitor(r)
	switch {
	case a.sent(r, tokens.act):
		a.ActingPages.ServeHTTP(w, r)
	case a.sent(r, tokens.view), open && a.local(r):
		a.Pages.ServeHTTP(w, r)
	case known && visitor.Acts():
		a.ActingPages.ServeHTTP(w, r.WithContext(signin.With(r.Context(), visitor)))
	case known:
		a.Pages.ServeHTTP(w, r.WithContext(signin.With(r.Context(), visitor)))
	case a.SignIn != nil && r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html"):
		http.Redirect(w, r, a.PagesPath+"signin?to="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
	default:
		a.refuse(w, open)
	}
}

// sent reports whether a request carries token, as a bearer token or as a password. It is false if token is empty.
func (a *Admin) sent(r *http.Request, token string) bool {
	given, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if _, password, basic := r.BasicAuth(); basic {
		given, is = password, true
	}
	return is && token != "" && subtle.ConstantTimeCompare([]byte(given), []byte(token)) == 1
}

// local reports whether the listener and the request's Host are loopback. The Host check prevents DNS rebinding: a
// foreign page in a local browser sends its own host name.
func (a *Admin) local(r *http.Request) bool {
	return isLoopback(a.Listener.Addr().String()) && isLoopback(r.Host)
}

// realm is what a browser shows when it asks for the token.
const realm = `Basic realm="pgdispatch: your name, and PGDISPATCH_ADMIN_TOKEN as the password", charset="UTF-8"`

func (a *Admin) refuse(w http.ResponseWriter, noToken bool) {
	if noToken {
		http.Error(w,
			"this page is served on loopback only: set PGDISPATCH_ADMIN_TOKEN, and send it as a bearer token or password",
			http.StatusForbidden)
		return
	}
	w.Header().Set("WWW-Authenticate", realm)
	http.Error(w,
		"send PGDISPATCH_ADMIN_TOKEN as a bearer token, or as the password with your name; PGDISPATCH_VIEW_TOKEN suffices "+
			"to view pages", http.StatusUnauthorized)
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
