package fault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/lab"
)

func sessionFaults() []*Fault {
	s := time.Second
	const longest = "the longest time without a start"
	return []*Fault{
		{Name: "listener-ended", Matrix: []int{24}, Domain: sessions,
			How: "pg_terminate_backend of every listener, twice", Lift: "nothing to lift",
			Figure: "until every replica listens again", Limit: listenerLost, Inject: listenerEnded},
		{Name: "sessions-ended", Matrix: []int{25}, Domain: sessions,
			How: "pg_terminate_backend of a replica's session, every 100 ms", Lift: "it stops",
			Figure: longest, Limit: onePoll, Shortest: 3 * s, Longest: 4 * s, Inject: sessionsEnded},
		{Name: "all-sessions-ended", Matrix: []int{25}, Domain: sessions,
			How: "pg_terminate_backend of all sessions of all replicas", Lift: "nothing to lift",
			Figure: longest, Limit: postgresBack, Longest: s, Inject: allSessionsEnded},
		{Name: "row-lock", Matrix: []int{26}, Domain: sessions,
			How:    "an idle transaction holds locks on five open items for longer than a lease",
			Lift:   "it is rolled back",
			Figure: longest, Limit: onePoll, Shortest: lab.Lease + s, Longest: lab.Lease + 2*s,
			Inject: heldTransaction("lock_item")},
		{Name: "table-lock", Matrix: []int{26}, Domain: sessions,
			How: "a transaction locks a table that every claim and every settle writes", Lift: "it is rolled back",
			Figure: "from the end of the lock to the first claim", Limit: postgresBack, Shortest: 2 * s,
			Longest: lab.Lease + s, Inject: tableLock},
		{Name: "old-snapshot", Matrix: []int{28}, Domain: sessions,
			How: "a REPEATABLE READ transaction with a snapshot stays open", Lift: "it is rolled back",
			Figure: longest, Limit: onePoll, Shortest: 3 * s, Longest: 6 * s, Inject: heldTransaction("old_snapshot")},
		{Name: "connections-exhausted", Matrix: []int{36}, Domain: sessions,
			How: "other clients take all connections, and the replicas' sessions are terminated", Lift: "they are released",
			Figure: "from their return to the first claim", Limit: 5, Shortest: 2 * s, Longest: 3 * s,
			Alone: true, Inject: exhausted},
		{Name: "notify-flood", Matrix: []int{38}, Domain: sessions,
			How: "an unrelated session notifies the replicas as fast as it can", Lift: "it stops",
			Figure: longest, Limit: onePoll, Shortest: 2 * s, Longest: 3 * s, Inject: notifyFlood},
		{Name: "gate-stranger", Matrix: []int{39}, Domain: sessions,
			How:    "an unrelated session holds the wake gate's locks; the replicas' gate sessions are terminated",
			Lift:   "it releases them",
			Figure: longest, Limit: onePoll, Shortest: 4 * s, Longest: 5 * s, Inject: gateStranger},
		{Name: "no-trigger", Matrix: []int{40}, Domain: sessions,
			How: "rows are inserted with session_replication_role = replica: no trigger fires", Lift: "nothing to lift",
			Figure: "until the row's workflow is started", Limit: onePoll, Inject: noTrigger},
		{Name: "open-transaction", Matrix: []int{64}, Domain: sessions,
			How: "a transaction enqueues and stays open", Lift: "it is committed",
			Figure: longest + " meanwhile", Limit: onePoll, Shortest: 4 * s, Longest: 5 * s, Inject: openTransaction(false)},
		{Name: "prepared-transaction", Matrix: []int{64}, Domain: sessions,
			How: "a transaction enqueues and is prepared for two-phase commit", Lift: "it is committed",
			Figure: longest + " meanwhile", Limit: onePoll, Shortest: 3 * s, Longest: 4 * s, Alone: true,
			Inject: openTransaction(true)},
	}
}

// holdTransaction executes a query in a transaction that stays open. The returned function rolls it back.
func holdTransaction(ctx context.Context, s *Scene, query string) (func(context.Context) error, error) {
	conn, err := s.Session(ctx)
	if err != nil {
		return nil, err
	}
	options := pgx.TxOptions{}
	if query == "old_snapshot" { // at READ COMMITTED the snapshot would end with its statement
		options.IsoLevel = pgx.RepeatableRead
	}
	tx, err := conn.BeginTx(ctx, options)
	if err == nil {
		_, err = tx.Exec(ctx, lab.Query(query))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("execute %s: %w", query, err), conn.Close(ctx))
	}
	return func(ctx context.Context) error {
		_ = tx.Rollback(ctx) // the server may be gone, and the transaction with it
		_ = conn.Close(ctx)
		return nil
	}, nil
}

func heldTransaction(query string) func(context.Context, *Scene) (Lift, error) {
	return func(ctx context.Context, s *Scene) (Lift, error) {
		at := time.Now()
		release, err := holdTransaction(ctx, s, query)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) (Measure, error) {
			m := gap(s.Lab, "DISPATCHED", at)
			value, err := m(ctx) // while it is still active
			return func(context.Context) (float64, error) { return value, err }, release(ctx)
		}, nil
	}
}

func tableLock(ctx context.Context, s *Scene) (Lift, error) {
	release, err := holdTransaction(ctx, s, "lock_executions")
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (Measure, error) {
		at := time.Now()
		return firstMove(s.Lab, "CLAIMED", at), release(ctx)
	}, nil
}

func listenerEnded(ctx context.Context, s *Scene) (Lift, error) {
	worst := 0.0
	for range 2 {
		at := time.Now()
		var ended int
		if err := s.Row(ctx, "terminate", []any{"pgdispatch listener"}, &ended); err != nil {
			return nil, err
		}
		err := lab.Await(ctx, tolerance, "every replica listens", func() (bool, error) {
			var all, listeners int
			err := s.Row(ctx, "sessions", []any{at}, &all, &listeners)
			return listeners == len(s.Replicas), err
		})
		if err != nil {
			return nil, err
		}
		s.Logf("%d listeners ended, back after %.2f s", ended, time.Since(at).Seconds())
		worst = max(worst, time.Since(at).Seconds())
	}
	return once(func(context.Context) (float64, error) { return worst, nil }), nil
}

func sessionsEnded(ctx context.Context, s *Scene) (Lift, error) {
	const interval = 100 * time.Millisecond
	at := time.Now()
	stop := background(ctx, func(ctx context.Context) {
		for n := 0; ctx.Err() == nil; n++ {
			_ = s.Exec(ctx, "terminate_one", n)
			_ = lab.Sleep(ctx, interval)
		}
	})
	return func(context.Context) (Measure, error) { stop(); return gap(s.Lab, "DISPATCHED", at), nil }, nil
}

// background runs a function until the returned stop is called. stop waits for the function to return.
func background(ctx context.Context, run func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); run(ctx) }()
	return func() { cancel(); <-done }
}

func allSessionsEnded(ctx context.Context, s *Scene) (Lift, error) {
	at := time.Now()
	var ended int
	err := s.Row(ctx, "terminate", []any{"pgdispatch%"}, &ended)
	return once(gap(s.Lab, "DISPATCHED", at)), err
}

func exhausted(ctx context.Context, s *Scene) (Lift, error) {
	const most = 300
	var strangers []*pgx.Conn
	give := func(ctx context.Context) {
		for _, conn := range strangers {
			_ = conn.Close(ctx)
		}
	}
	var ended int
	if err := s.Row(ctx, "terminate", []any{"pgdispatch%"}, &ended); err != nil {
		return nil, err
	}
	for len(strangers) < most {
		conn, err := s.Session(ctx)
		if err != nil {
			break // this failure is intended
		}
		strangers = append(strangers, conn)
	}
	s.Logf("%d other clients are connected", len(strangers))
	return func(ctx context.Context) (Measure, error) {
		at := time.Now()
		give(ctx)
		return firstMove(s.Lab, "CLAIMED", at), nil
	}, nil
}

func notifyFlood(ctx context.Context, s *Scene) (Lift, error) {
	conn, err := s.Session(ctx)
	if err != nil {
		return nil, err
	}
	at, sent := time.Now(), 0
	stop := background(ctx, func(ctx context.Context) { sent = repeat(ctx, conn, "notify_flood") })
	return func(ctx context.Context) (Measure, error) {
		stop()
		_ = conn.Close(ctx)
		s.Logf("%d notifications sent", sent)
		return gap(s.Lab, "DISPATCHED", at), nil
	}, nil
}

// repeatOnce reports whether a query could be executed.
func repeatOnce(ctx context.Context, conn *pgx.Conn, query string) bool {
	_, err := conn.Exec(ctx, lab.Query(query))
	return err == nil
}

// repeat executes a query repeatedly and counts the executions.
func repeat(ctx context.Context, conn *pgx.Conn, query string) (times int) {
	for ctx.Err() == nil && repeatOnce(ctx, conn, query) {
		times++
	}
	return times
}

func gateStranger(ctx context.Context, s *Scene) (Lift, error) {
	conn, err := s.Session(ctx)
	if err != nil {
		return nil, err
	}
	at := time.Now()
	taken := make(chan error, 1)
	waiting, giveUp := context.WithCancel(ctx)
	go func() {
		_, err := conn.Exec(waiting, lab.Query("gate_stranger"))
		taken <- err
	}()
	var ended int
	for range 10 { // a replica may be faster than the unrelated session
		err = errors.Join(s.Row(ctx, "terminate", []any{"pgdispatch gate"}, &ended), lab.Sleep(ctx, 50*time.Millisecond))
		if len(taken) > 0 || err != nil {
			break
		}
	}
	return func(ctx context.Context) (Measure, error) {
		s.Logf("the unrelated session has the locks: %t", len(taken) > 0)
		giveUp()
		<-taken
		m := gap(s.Lab, "DISPATCHED", at)
		_ = conn.Close(ctx)
		return m, nil
	}, err
}

func noTrigger(ctx context.Context, s *Scene) (Lift, error) {
	conn, err := s.Session(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, lab.Query("no_trigger")); err != nil {
		return nil, fmt.Errorf("switch triggers off: %w", err)
	}
	at := time.Now()
	execution, err := s.Load.Insert(ctx, conn, s.Load.Roomy)
	return once(started(s.Lab, execution, at)), err
}

// started measures the time from a moment until an execution was dispatched.
func started(l *lab.Lab, execution string, from time.Time) Measure {
	return func(ctx context.Context) (float64, error) {
		var at *time.Time
		err := lab.Await(ctx, tolerance, "the row is started", func() (bool, error) {
			err := l.Row(ctx, "started", []any{execution}, &at)
			return at != nil, err
		})
		if err != nil {
			return 0, err
		}
		return at.Sub(from).Seconds(), nil
	}
}

// openTransaction enqueues in a transaction that stays open, prepared or not. Other transactions must not wait for it.
func openTransaction(prepared bool) func(context.Context, *Scene) (Lift, error) {
	return func(ctx context.Context, s *Scene) (Lift, error) {
		conn, err := s.Session(ctx)
		if err != nil {
			return nil, err
		}
		end := "commit"
		if prepared {
			end = "commit_prepared"
			_, err = conn.Exec(ctx, lab.Query("notify_off"))
		}
		var open *lab.OpenRow
		if err == nil {
			open, err = s.Load.InsertOpen(ctx, conn, s.Load.Workspaces[s.Rand.IntN(3)])
		}
		if err == nil && prepared {
			if _, err = conn.Exec(ctx, lab.Query("prepare")); err != nil {
				open.Ended(lab.RolledBack)
			}
		}
		if err != nil {
			return nil, errors.Join(err, conn.Close(ctx))
		}
		at := time.Now()
		return func(ctx context.Context) (Measure, error) {
			value, err := gap(s.Lab, "DISPATCHED", at)(ctx)
			_, endErr := conn.Exec(ctx, lab.Query(end))
			if endErr == nil {
				open.Ended(lab.Acknowledged)
			} else if !prepared {
				open.Ended(lab.Unknown)
			}
			_ = conn.Close(ctx)
			return func(context.Context) (float64, error) { return value, err }, endErr
		}, nil
	}
}
