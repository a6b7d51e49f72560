package lab

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/postgres"
	"github.com/pgdispatch/pgdispatch/test/internal/proxy"
)

// standbyTimeout bounds the wait until a standby follows.
const standbyTimeout = 20 * time.Second

// forgottenRuns is how long a workflow whose claim was forgotten may run.
const forgottenRuns = 5 * time.Second

// fastStop is the signal for a stop that waits for no session.
const fastStop = syscall.SIGINT

// Primary returns the server that accepts writes.
func (l *Lab) Primary() *postgres.Node {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.primary
}

// Standby returns the server that follows, or nil.
func (l *Lab) Standby() *postgres.Node {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.standby
}

// AddStandby creates a standby of the primary, and returns when it follows.
func (l *Lab) AddStandby(ctx context.Context) error {
	l.mu.Lock()
	l.nodes++
	name := fmt.Sprintf("postgres-%d", l.nodes)
	l.mu.Unlock()
	standby, err := postgres.Standby(ctx, l.Dir, name, l.Replication.Address)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.all = append(l.all, standby)
	l.mu.Unlock()
	if err := standby.Start(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	l.standby = standby
	l.mu.Unlock()
	return l.awaitStandby(ctx, false)
}

// awaitStandby waits until the standby follows and its replication is synchronous or asynchronous, as requested.
func (l *Lab) awaitStandby(ctx context.Context, synchronous bool) error {
	return Await(ctx, standbyTimeout, "the standby follows", func() (bool, error) {
		var follows, waits bool
		err := l.Row(ctx, "standby_state", nil, &follows, &waits)
		return follows && waits == synchronous, err
	})
}

// Synchronous switches synchronous replication on or off. When switching it on, it returns once commits wait for the
// standby and the standby has everything that was committed before.
func (l *Lab) Synchronous(ctx context.Context, on bool) error {
	query := "standby_off"
	if on {
		query = "standby_on"
	}
	if err := errors.Join(l.Insist(ctx, query), l.Insist(ctx, "reload")); err != nil {
		return err
	}
	if !on {
		return nil
	}
	if err := l.awaitStandby(ctx, true); err != nil {
		return err
	}
	// Once this commit has been confirmed by the standby, the standby has everything before it too.
	return l.Insist(ctx, "marker")
}

// Failover kills the primary and promotes the standby in its place. For the time readOnly the address leads to a
// read-only server, as when an address is moved before the promotion. It returns when the new primary accepts writes.
func (l *Lab) Failover(ctx context.Context, readOnly time.Duration) error {
	l.mu.Lock()
	old, standby := l.primary, l.standby
	l.mu.Unlock()
	if standby == nil {
		return errors.New("fail over: there is no standby")
	}
	if err := old.Kill(); err != nil {
		return err
	}
	l.retarget(standby.Address())
	l.Replication.Cut() // data on its way to the standby is lost with the primary
	l.Replication.Set(proxy.Policy{})
	if err := Sleep(ctx, readOnly); err != nil {
		return err
	}
	conn, err := standby.Connect(ctx, "postgres")
	if err != nil {
		return err
	}
	// Commits must not wait for a standby that does not exist yet.
	if _, err = conn.Exec(ctx, Query("promote")); err == nil {
		if _, err = conn.Exec(ctx, Query("standby_off")); err == nil {
			_, err = conn.Exec(ctx, Query("reload"))
		}
	}
	if err = errors.Join(err, conn.Close(ctx)); err != nil {
		return fmt.Errorf("promote standby: %w", err)
	}
	l.mu.Lock()
	l.primary, l.standby = standby, nil
	l.mu.Unlock()
	l.Replication.SetTarget(standby.Address())
	return nil
}

func (l *Lab) retarget(address string) {
	l.admin.SetTarget(address)
	l.App.SetTarget(address)
	for _, r := range l.Replicas {
		r.Postgres.SetTarget(address)
	}
}

func (l *Lab) closePostgres() error {
	var err error
	for _, node := range []*postgres.Node{l.Standby(), l.Primary()} {
		if node != nil {
			err = errors.Join(err, node.Stop(syscall.SIGQUIT))
		}
	}
	for _, node := range l.all {
		err = errors.Join(err, node.Unmount())
	}
	return err
}

// SetClock restarts the primary with a clock that is ahead of the machine's by the given duration.
func (l *Lab) SetClock(ctx context.Context, ahead time.Duration) error {
	primary := l.Primary()
	if err := primary.Stop(syscall.SIGINT); err != nil {
		return err
	}
	before := primary.Clock
	primary.Clock = ahead
	err := primary.Start(ctx)
	if errors.Is(err, postgres.ErrNotHere) {
		primary.Clock = before
		err = errors.Join(err, primary.Start(ctx))
	}
	return err
}

// StandbyClock restarts the standby with a clock that is ahead of the machine's by the given duration.
func (l *Lab) StandbyClock(ctx context.Context, ahead time.Duration) error {
	standby := l.Standby()
	if err := standby.Stop(syscall.SIGINT); err != nil {
		return err
	}
	standby.Clock = ahead
	err := standby.Start(ctx)
	if errors.Is(err, postgres.ErrNotHere) {
		standby.Clock = 0
		return errors.Join(err, standby.Start(ctx))
	}
	return errors.Join(err, l.awaitStandby(ctx, false))
}

// TemporalEmpty switches Temporal to an empty database, or back to its own. Temporal must be down.
func (l *Lab) TemporalEmpty(empty bool) {
	l.Temporal.Database = filepath.Join(l.Dir, "temporal.db")
	if empty {
		l.Temporal.Database = filepath.Join(l.Dir, "empty.db")
	}
}

// TemporalDown kills Temporal, and makes its address refuse connections as the machine would.
func (l *Lab) TemporalDown() error {
	l.refuseTemporal(true)
	return l.Temporal.Process().Kill()
}

// TemporalUp starts Temporal again. It returns when the server answers and is reachable.
func (l *Lab) TemporalUp() error {
	if err := l.Temporal.Start(); err != nil {
		return err
	}
	l.refuseTemporal(false)
	return nil
}

// Window is a time interval.
type Window struct {
	// From and To are its ends, both included.
	From, To time.Time
}

// Contains reports whether a moment is in the window.
func (w Window) Contains(at time.Time) bool { return !at.Before(w.From) && !at.After(w.To) }

// Lossy returns the windows in which the database forgot committed claims, because a standby without them took over.
func (l *Lab) Lossy() []Window {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lossy
}

// FailoverLossy promotes a standby that has lagged behind for a while. Rows acknowledged before the lag began must all
// exist. Of the rows acknowledged later, it records which are lost.
func (l *Lab) FailoverLossy(ctx context.Context, behind time.Duration) error {
	if err := l.Synchronous(ctx, true); err != nil {
		return err
	}
	// The standby has everything that was acknowledged before this moment.
	from := time.Now()
	l.Replication.Set(proxy.Policy{Hole: true})
	if err := errors.Join(l.Synchronous(ctx, false), Sleep(ctx, behind)); err != nil {
		return err
	}
	if err := l.Failover(ctx, 0); err != nil {
		return err
	}
	// Workflows whose claims were forgotten end some seconds later.
	window := Window{From: from, To: time.Now().Add(forgottenRuns)}
	l.mu.Lock()
	l.lossy = append(l.lossy, window)
	l.mu.Unlock()
	there, err := Rows(ctx, l, "executions", pgx.RowTo[string])
	if err != nil {
		return err
	}
	lost := l.Load.lose(there, window)
	l.Logf("%d rows acknowledged after the standby stopped following are lost", lost)
	return nil
}
