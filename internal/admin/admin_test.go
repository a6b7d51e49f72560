package admin

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/looptest"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// quiet discards the log.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// fakeListener is bound to an address and accepts no connections.
type fakeListener struct {
	net.Listener
	address string
}

func (f fakeListener) Addr() net.Addr {
	host, port, _ := strings.Cut(f.address, " ")
	return &net.UnixAddr{Name: host + ":" + port}
}

// ask makes an admin server that is bound to host answer a request.
func ask(a *Server, host, path string, headers ...string) (int, string) {
	a.Listener, a.Log, a.Metrics = fakeListener{address: host + " 9464"}, quiet(), prometheus.NewRegistry()
	if a.Health == nil {
		a.Health = NewHealth("")
	}
	request := httptest.NewRequest(http.MethodGet, path, nil)
	request.Host = "127.0.0.1:9464"
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		request.Header.Set(name, value)
		if name == "Host" {
			request.Host = value
		}
	}
	answer := httptest.NewRecorder()
	a.Handler().ServeHTTP(answer, request)
	return answer.Code, answer.Body.String()
}

func TestReadyzSaysWhyNotAndLivezIsAboutTheProcessOnly(t *testing.T) {
	t.Parallel()
	health := NewHealth("database: not reached yet")
	answers := func(wantStatus int, want string) {
		t.Helper()
		status, text := ask(&Server{Health: health}, "127.0.0.1", "/readyz")
		require.Equal(t, wantStatus, status)
		require.Equal(t, want, text)
		status, text = ask(&Server{Health: health}, "127.0.0.1", "/livez")
		require.Equal(t, 200, status)
		require.Equal(t, "ok\n", text)
	}
	answers(503, "not ready\ndatabase: not reached yet\n")
	fails := func(problem string) func(context.Context) error {
		return func(context.Context) error { return errors.New(problem) }
	}
	health.Working(Check{Name: "database", Do: fails("connection refused")},
		Check{Name: "listener", Do: func(context.Context) error { return nil }},
		Check{Name: "temporal", Do: fails("it does not accept workflows")})
	answers(503, "not ready\ndatabase: connection refused\ntemporal: it does not accept workflows\n")
	health.Working(Check{Name: "upkeep", Degrades: true, Do: fails("marks: permission denied")})
	answers(200, "ready\ndegraded: upkeep: marks: permission denied\n")
	health.Working()
	answers(200, "ready\n")
	health.Waiting("stopping")
	answers(503, "not ready\nstopping\n")
}

func TestChecksAreDoneOnceASecondAndGivenUpInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		done, hangs := 0, false
		health := NewHealth("")
		health.Working(Check{Name: "database", Do: func(ctx context.Context) error {
			done++
			if hangs {
				<-ctx.Done()
			}
			return context.Cause(ctx)
		}})
		for range 10 {
			require.True(t, health.Ready(t.Context()))
		}
		require.Equal(t, 1, done)
		time.Sleep(time.Second)
		hangs = true
		began := time.Now()
		require.Equal(t, []string{"database: check timed out after 900ms"}, health.Problems(t.Context()))
		require.Equal(t, 900*time.Millisecond, time.Since(began))
		require.Equal(t, 2, done)
	})
}

func TestWhoMayLookAndWhoMayAct(t *testing.T) {
	t.Parallel()
	const admin, view = "0123456789abcdef", "fedcba9876543210"
	says := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
	}
	password := func(text string) string {
		return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("anna:"+text))
	}
	for name, c := range map[string]struct {
		admin, view, bound, header string
		pages, profiles            string // what is served, or the status of the rejection
	}{
		"this machine, without tokens":      {"", "", "127.0.0.1", "", "looks", "200"},
		"this machine, with an empty token": {"", "", "127.0.0.1", password(""), "looks", "200"},
		"elsewhere, without tokens":         {"", "", "10.0.0.1", "", "403", "403"},
		"elsewhere, with an empty token":    {"", "", "10.0.0.1", password(""), "403", "403"},
		"this machine by IPv6":              {"", "", "[::1]", "", "looks", "200"},
		"this machine by a foreign name":    {"", "", "127.0.0.1", "Host: evil.example:9464", "403", "403"},
		"every interface":                   {"", "", "[::]", "", "403", "403"},
		"elsewhere, with an empty bearer":   {"", "", "10.0.0.1", "Authorization: Bearer ", "403", "403"},
		"no token":                          {admin, "", "10.0.0.1", "", "401", "401"},
		"no token on this machine":          {admin, "", "127.0.0.1", "", "401", "401"},
		"another token":                     {admin, "", "10.0.0.1", "Authorization: Bearer " + admin + "0", "401", "401"},
		"the token without a scheme":        {admin, "", "10.0.0.1", "Authorization: " + admin, "401", "401"},
		"the admin token":                   {admin, view, "10.0.0.1", "Authorization: Bearer " + admin, "acts", "200"},
		"the admin token as a password":     {admin, "", "10.0.0.1", password(admin), "acts", "200"},
		"the view token":                    {admin, view, "10.0.0.1", "Authorization: Bearer " + view, "looks", "401"},
		"the view token as a password":      {"", view, "10.0.0.1", password(view), "looks", "403"},
		"the view token on this machine":    {"", view, "127.0.0.1", password(view), "looks", "200"},
		"only a view token, not sent":       {"", view, "127.0.0.1", "", "401", "200"},
		"a wrong token":                     {admin, view, "127.0.0.1", password("x"), "401", "401"},
		"no password":                       {admin, view, "127.0.0.1", password(""), "401", "401"},
	} {
		headers := []string{}
		if c.header != "" {
			headers = append(headers, c.header)
		}
		serve := func(path string) string {
			status, text := ask(
				&Server{Token: c.admin, ViewToken: c.view, Pages: says("looks"), ActingPages: says("acts"), PagesPath: "/ui/"},
				c.bound, path, headers...)
			if status != 200 || !strings.HasPrefix(path, "/ui/") {
				return strconv.Itoa(status)
			}
			return text
		}
		require.Equal(t, c.pages, serve("/ui/items"), name)
		require.Equal(t, c.profiles, serve("/debug/pprof/goroutine?debug=1"), name)
	}
}

// serving runs a server until the test ends, and returns its address.
func serving(t *testing.T, a *Server) string {
	t.Helper()
	a.Listener = must.Get(Listen(t.Context(), "127.0.0.1:0")).In(t)
	a.Metrics, a.Health, a.Log = prometheus.NewRegistry(), NewHealth(""), quiet()
	go func() { _ = a.Run(t.Context()) }()
	return a.Listener.Addr().String()
}

func TestTheServerServesUntilItIsToldToStop(t *testing.T) {
	t.Parallel()
	listener := must.Get(Listen(t.Context(), "127.0.0.1:0")).In(t)
	admin := &Server{Listener: listener, Metrics: prometheus.NewRegistry(), Health: NewHealth(""), Log: quiet()}
	stop := looptest.Run(t, admin.Run)
	response := must.Get(http.Get("http://" + listener.Addr().String() + "/livez")).In(t)
	require.Equal(t, "ok\n", string(must.Get(io.ReadAll(response.Body)).In(t)))
	stop()
	_, err := net.Dial("tcp", listener.Addr().String())
	require.Error(t, err)
}

func TestAnAddressThatCannotBeHadIsAnError(t *testing.T) {
	t.Parallel()
	taken := must.Get(Listen(t.Context(), "127.0.0.1:0")).In(t)
	t.Cleanup(func() { _ = taken.Close() })
	_, err := Listen(t.Context(), taken.Addr().String())
	require.ErrorContains(t, err, "address already in use")
}
