package replica

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

// Reloads are the requests to take a changed configuration while a replica runs.
type Reloads struct {
	// Requests receives a signal for each.
	Requests <-chan os.Signal
	// Read reads the whole configuration again.
	Read func() (config.Loaded, error)
	// Level is the log's.
	Level *slog.LevelVar
}

// reload serves requests until ctx ends. The function that it returns waits for the last.
func (r *replica) reload(ctx context.Context, current config.Loaded, reloads Reloads) (wait func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	certificates := certificatesOf(current.Config)
	go func() {
		defer close(ended)
		for {
			select {
			case <-ctx.Done():
				return
			case <-reloads.Requests:
				current, certificates = r.reloadOnce(current, certificates, reloads)
			}
		}
	}()
	return func() { cancel(); <-ended }
}

func (r *replica) reloadOnce(was config.Loaded, certificates []*tls.Config, reloads Reloads) (config.Loaded,
	[]*tls.Config) {
	next, err := reloads.Read()
	if err != nil {
		r.log.Error("Cannot reload the configuration: nothing was changed", "error", postgres.Redact(err))
		return was, certificates
	}
	is, changed, refused := was.Reload(next)
	now := certificatesOf(was.Config) // of the connections that this replica has, so not of next
	for n, name := range []string{"Postgres", "Temporal"} {
		if !sameCertificates(certificates[n], now[n]) {
			changed = append(changed, "certificates for "+name)
		}
	}
	if renew := r.renew.Load(); renew != nil && !sameCertificates(certificates[0], now[0]) {
		(*renew)()
	}
	if server := r.admin.Load(); server != nil {
		server.SetTokens(is.AdminToken, is.ViewToken)
	}
	if n := slices.Index(changed, "log-level"); n >= 0 {
		changed[n] = fmt.Sprintf("log-level: %s to %s", was.LogLevel, is.LogLevel)
	}
	// The lower of both levels, so that the next lines are seen.
	reloads.Level.Set(min(was.LogLevel, is.LogLevel))
	if len(refused) > 0 {
		r.log.Warn("Cannot reload these settings: each needs a restart", "settings", refused)
	}
	r.log.Info("Reloaded the configuration", "changed", slices.Concat([]string{}, changed))
	reloads.Level.Set(is.LogLevel)
	return is, now
}

// renews has a reload close the connections of pools, once each is idle.
func (r *replica) renews(pools ...*pgxpool.Pool) {
	renew := func() {
		for _, pool := range pools {
			pool.Reset()
		}
	}
	r.renew.Store(&renew)
}

// certificatesOf returns how connections to Postgres and to Temporal are verified. Nil means not at all.
func certificatesOf(c config.Config) []*tls.Config {
	return []*tls.Config{c.Database.Certificates(), c.Temporal.Certificates()}
}

func sameCertificates(a, b *tls.Config) bool {
	if a == nil || b == nil {
		return a == b
	}
	sameRoots := a.RootCAs == b.RootCAs || a.RootCAs != nil && b.RootCAs != nil && a.RootCAs.Equal(b.RootCAs)
	return sameRoots && slices.EqualFunc(a.Certificates, b.Certificates, func(a, b tls.Certificate) bool {
		return slices.EqualFunc(a.Certificate, b.Certificate, bytes.Equal)
	})
}
