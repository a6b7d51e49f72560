// Package admin serves the state of a replica over HTTP: health, metrics, profiles and the web view.
package admin

import (
	"context"
	"crypto/subtle"
	"crypto/tls"
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

// Server serves /livez, /readyz, /metrics, /debug/pprof/ and the web view. Set its fields before Run and do not change
// them afterwards; SetTokens changes the tokens.
type Server struct {
	// Listener accepts the connections. Run closes it.
	Listener net.Listener
	// Certificate has the server speak TLS. Nil means plain HTTP.
	Certificate *Certificate
	// Metrics is served at /metrics.
	Metrics prometheus.Gatherer
	Health  *Health
	// Pages is the read-only web view, served at PagesPath and below. ActingPages is the web view for those who may
	// also change things. Nil disables the web view.
	Pages, ActingPages http.Handler
	PagesPath          string
	// Base is a path below which the pages are served too, for a proxy that passes it on, such as /tools. Redirects and
	// links lead below it. Empty means none.
	Base string
	// Token grants access to /debug/pprof/ and ActingPages, ViewToken to Pages. Clients send either as a bearer token
	// or as the password of basic authentication. If both are empty, Pages is open on loopback. If Token is empty, so
	// are profiles.
	Token, ViewToken string
	// Visitors tell who sends a request without a token. If there are any, nothing is open on loopback.
	Visitors []func(*http.Request) (signin.Visitor, bool)
	// SignIn signs people in. Nil disables it.
	SignIn *signin.OIDC
	Log    *slog.Logger

	changed atomic.Pointer[tokenPair]
}

// Listen opens the TCP listener for Server.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve health and metrics: %w", err)
	}
	return listener, nil
}

// Run serves until ctx is cancelled, then returns nil. Requests in flight get one second to finish.
func (s *Server) Run(ctx context.Context) error {
	listener := s.Listener
	if s.Certificate != nil {
		config, err := s.Certificate.Config()
		if err != nil {
			return fmt.Errorf("serve health and metrics: %w", err)
		}
		listener = tls.NewListener(listener, config)
	}
	s.Log.InfoContext(ctx, "Serving health and metrics", "address", listener.Addr().String(), "tls", s.Certificate != nil)
	if err := serve.Run(ctx, s.server(ctx), listener, mostConnections, stopTimeout); err != nil {
		return fmt.Errorf("serve health and metrics: %w", err)
	}
	return nil
}

// server bounds what any client can hold, with or without a token.
func (s *Server) server(ctx context.Context) *http.Server {
	return &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, WriteTimeout: writeTimeout,
		ErrorLog:    slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
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
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", s.Health.serve)
	mux.Handle("GET /metrics",
		promhttp.HandlerFor(s.Metrics,
			promhttp.HandlerOpts{MaxRequestsInFlight: mostScrapes,
				ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelWarn)}))
	for path, handler := range map[string]http.HandlerFunc{
		"GET /debug/pprof/": pprof.Index, "GET /debug/pprof/profile": pprof.Profile,
		"GET /debug/pprof/symbol": pprof.Symbol, "GET /debug/pprof/trace": pprof.Trace,
	} {
		mux.HandleFunc(path, s.profile(handler))
	}
	if s.Pages != nil {
		mux.HandleFunc(s.PagesPath, s.page)
		s.signIn(mux)
		home := http.RedirectHandler(s.Base+s.PagesPath, http.StatusFound)
		mux.Handle("GET /{$}", home)
		if s.Base != "" {
			mux.Handle(s.Base+s.PagesPath, http.StripPrefix(s.Base, mux))
			mux.Handle("GET "+s.Base, home)
			mux.Handle("GET "+s.Base+"/{$}", home)
		}
	}
	return boundBody(mux, bodyTimeout)
}

// profile requires the token. If no token is set, it requires loopback.
func (s *Server) profile(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		token := s.tokens().act
		if s.sent(r, token) || token == "" && len(s.Visitors) == 0 && s.local(r) {
			next(w, r)
			return
		}
		s.refuse(w, token == "")
	}
}

// page serves ActingPages to requests with Token and Pages to requests with ViewToken. If neither is set, it serves
// Pages on loopback. Any site open in a local browser can send requests over loopback, so acting always requires Token.
func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	tokens := s.tokens()
	open := tokens == (tokenPair{}) && len(s.Visitors) == 0
	visitor, known := s.visitor(r)
	switch {
	case s.sent(r, tokens.act):
		s.ActingPages.ServeHTTP(w, r)
	case s.sent(r, tokens.view), open && s.local(r):
		s.Pages.ServeHTTP(w, r)
	case known && visitor.Acts():
		s.ActingPages.ServeHTTP(w, r.WithContext(signin.With(r.Context(), visitor)))
	case known:
		s.Pages.ServeHTTP(w, r.WithContext(signin.With(r.Context(), visitor)))
	case s.SignIn != nil && r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html"):
		http.Redirect(w, r, s.Base+s.PagesPath+"signin?to="+url.QueryEscape(s.Base+r.URL.RequestURI()), http.StatusSeeOther)
	default:
		s.refuse(w, open)
	}
}

// sent reports whether a request carries token, as a bearer token or as a password. It is false if token is empty.
func (s *Server) sent(r *http.Request, token string) bool {
	given, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if _, password, basic := r.BasicAuth(); basic {
		given, is = password, true
	}
	return is && token != "" && subtle.ConstantTimeCompare([]byte(given), []byte(token)) == 1
}

// local reports whether the listener and the request's Host are loopback. The Host check prevents DNS rebinding: a
// foreign page in a local browser sends its own host name.
func (s *Server) local(r *http.Request) bool {
	return isLoopback(s.Listener.Addr().String()) && isLoopback(r.Host)
}

// realm is what a browser shows when it asks for the token.
const realm = `Basic realm="pgdispatch: your name, and PGDISPATCH_ADMIN_TOKEN as the password", charset="UTF-8"`

func (s *Server) refuse(w http.ResponseWriter, noToken bool) {
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

// tokenPair are the tokens in force.
type tokenPair struct{ act, view string }

// SetTokens replaces Token and ViewToken, from the next request on.
func (s *Server) SetTokens(token, viewToken string) { s.changed.Store(&tokenPair{token, viewToken}) }

func (s *Server) tokens() tokenPair {
	if changed := s.changed.Load(); changed != nil {
		return *changed
	}
	return tokenPair{s.Token, s.ViewToken}
}

// visitor returns who sends a request without a token, according to a trusted source.
func (s *Server) visitor(r *http.Request) (signin.Visitor, bool) {
	for _, visitor := range s.Visitors {
		if v, is := visitor(r); is {
			return v, true
		}
	}
	return signin.Visitor{}, false
}

// signIn registers the paths to sign in and out.
func (s *Server) signIn(mux *http.ServeMux) {
	if s.SignIn != nil {
		mux.HandleFunc("GET "+s.PagesPath+"signin", s.SignIn.SignIn)
		mux.HandleFunc("GET "+s.PagesPath+"signin/callback", s.SignIn.Callback)
	}
	mux.Handle("POST "+s.PagesPath+"signout", http.NewCrossOriginProtection().Handler(http.HandlerFunc(s.signOut)))
}

// signOut ends a session, or makes the browser forget the token, for which HTTP has no other way than a refusal.
func (s *Server) signOut(w http.ResponseWriter, r *http.Request) {
	links := []signin.Link{{Words: "Sign in again", To: s.Base + s.PagesPath}}
	if s.SignIn != nil {
		s.SignIn.SignOut(w, r)
		if address := s.SignIn.EndSession(r.Context()); address != "" {
			links = append(links, signin.Link{Words: "Sign out at your identity provider too", To: address})
		}
	}
	code := http.StatusOK
	if _, _, basic := r.BasicAuth(); basic {
		w.Header().Set("WWW-Authenticate", realm)
		code = http.StatusUnauthorized
	}
	signin.Page{Heading: "You are signed out", Text: "You may still be signed in at your identity provider.",
		Links: links}.Write(w, code)
}
