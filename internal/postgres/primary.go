package postgres

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgdispatch/pgdispatch/sql"
)

// Primary keeps the connections of one replica on one primary. After a failover the former primary may accept writes
// for a while, for example if only its failover manager was killed: what is read and written there will be lost. A
// promotion begins a new timeline. Once a connection has seen one, connections to a server on an earlier timeline are
// refused, and those that are open are closed.
//
// The zero value is ready to use. It is safe for concurrent use.
type Primary struct {
	mu     sync.Mutex
	newest timeline
	// refusedSince is when a timeline was first refused since a connection to the newest was made. Zero if none was.
	refusedSince time.Time
	refusedAt    time.Time            // the last time
	sessions     map[net.Conn]session // the open ones outside of pools
}

// abandonedAfter is how long only earlier timelines than the newest must have been found until one of them is accepted.
// A promoted server that restarts after a crash should be back by then: while it lives, the former primary must not be
// used.
const abandonedAfter = 30 * time.Second

// session is a connection outside of a pool. Its PgConn may only be used by its owner.
type session struct {
	of     timeline
	closed <-chan struct{}
}

// timeline is the timeline of a server. The zero value is unknown.
type timeline struct {
	cluster string // its system identifier: timelines of different clusters cannot be compared
	number  string // eight hexadecimal digits
}

// precedes reports whether another server of the same cluster was promoted later.
func (t timeline) precedes(newest timeline) bool {
	return t != timeline{} && t.cluster == newest.cluster && t.number < newest.number
}

// FormerPrimaryError refuses a server that is no primary any more, although it accepts writes.
type FormerPrimaryError struct{ Timeline, Newest string }

// Error includes the remedy.
func (e *FormerPrimaryError) Error() string {
	return fmt.Sprintf("this server is on timeline %s, and another one was promoted to %s: it is a former primary that "+
		"still accepts writes, which will be lost: stop it, and connect through a proxy that checks who is primary",
		e.Timeline, e.Newest)
}

// ofConnection is the key of a connection's timeline in its custom data.
const ofConnection = "pgdispatch.timeline"

// admit refuses a new connection to a former primary. It admits a server that does not tell its timeline.
func (p *Primary) admit(ctx context.Context, conn *pgconn.PgConn) error {
	if p == nil {
		return nil
	}
	results, err := conn.Exec(ctx, sql.Text("timeline")).ReadAll()
	if err != nil || len(results) != 1 || len(results[0].Rows) != 1 {
		return ctx.Err()
	}
	row := results[0].Rows[0]
	found := timeline{cluster: string(row[0]), number: string(row[1])}

	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.judge(found, time.Now()); err != nil {
		return err
	}
	conn.CustomData()[ofConnection] = found
	return nil
}

// judge refuses a timeline that precedes the newest, unless only such were found for abandonedAfter: a failover manager
// may abandon a promotion and return to the former primary. The caller must hold mu.
func (p *Primary) judge(found timeline, now time.Time) error {
	if found.precedes(p.newest) {
		if p.refusedSince.IsZero() || now.Sub(p.refusedAt) >= abandonedAfter/2 { // a refusal of long ago says nothing
			p.refusedSince = now
		}
		p.refusedAt = now
		if now.Sub(p.refusedSince) < abandonedAfter {
			return &FormerPrimaryError{found.number, p.newest.number}
		}
	}
	p.refusedSince = time.Time{}
	if p.newest != found {
		p.newest = found
		p.closeFormer()
	}
	return nil
}

// closeFormer closes the sessions on a former primary, so that their owners connect again. The caller must hold mu.
func (p *Primary) closeFormer() {
	for conn, session := range p.sessions {
		if session.of.precedes(p.newest) {
			_ = conn.Close() // whoever reads from it gets an error
			delete(p.sessions, conn)
		}
	}
}

// follow closes a session outside of a pool once its server is a former primary.
func (p *Primary) follow(conn *pgconn.PgConn) {
	of, told := conn.CustomData()[ofConnection].(timeline)
	if p == nil || !told {
		return
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.sessions, func(_ net.Conn, s session) bool {
		select {
		case <-s.closed:
			return true
		default:
			return false
		}
	})
	if p.sessions == nil {
		p.sessions = map[net.Conn]session{}
	}
	p.sessions[conn.Conn()] = session{of, conn.CleanupDone()}
	p.closeFormer()
}

// prepareConn reports whether a pool may hand out a connection: not if its server is a former primary.
func (p *Primary) prepareConn(_ context.Context, conn *pgx.Conn) (bool, error) {
	of, told := conn.PgConn().CustomData()[ofConnection].(timeline)
	if p == nil || !told {
		return true, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !of.precedes(p.newest), nil
}

// Primaries returns those of the target's hosts that accept writes, as "host:port". More than one means that
// applications and replicas may use different databases.
func (t Target) Primaries(ctx context.Context) ([]string, error) {
	config, err := pgx.ParseConfig(t.URL)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Name(), Redact(err))
	}
	if err := t.verify(config); err != nil {
		return nil, err
	}
	prepare(config, nil, t)
	t.login(config)

	tries := append([]*pgconn.FallbackConfig{{Host: config.Host, Port: config.Port, TLSConfig: config.TLSConfig}},
		config.Fallbacks...)
	var accept []string
	for _, try := range tries {
		address := fmt.Sprintf("%s:%d", try.Host, try.Port)
		if slices.Contains(accept, address) {
			continue // pgx tries a host again with other TLS settings
		}
		one := config.Copy()
		one.Host, one.Port, one.TLSConfig, one.Fallbacks = try.Host, try.Port, try.TLSConfig, nil
		conn, err := pgx.ConnectConfig(ctx, one)
		if err != nil {
			continue // a standby, or not there
		}
		accept = append(accept, address)
		_ = conn.Close(ctx)
	}
	return accept, nil
}
