package fault

import (
	"context"
	"errors"
	"time"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/lab"
)

// storageFaults are full disks, and tables without vacuum.
func storageFaults() []*Fault {
	s := time.Second
	return []*Fault{
		{Name: "disk-full", Matrix: []int{30}, Domain: database,
			How: "the disk with Postgres' data is full", Lift: "space is freed",
			Figure: "from then on to the first claim", Limit: postgresBack, Shortest: 3 * s, Longest: lab.Lease + s,
			Alone: true, Inject: diskFull},
		{Name: "log-disk-full", Matrix: []int{31}, Domain: database,
			How:    "the disk with Postgres' write-ahead log is full, and Postgres panics",
			Lift:   "space is freed, and Postgres restarted",
			Figure: "from Postgres' return to the first claim", Limit: postgresBack, Shortest: s, Longest: 2 * s,
			Alone: true, Inject: logDiskFull},
		{Name: "no-vacuum", Matrix: []int{29}, Domain: sessions,
			How: "autovacuum is off for every table that claims and settles write", Lift: "autovacuum is on again",
			Figure: "the longest time without a start", Limit: onePoll, Shortest: 6 * s,
			Longest: 8 * s, Inject: noVacuum},
	}
}

func diskFull(_ context.Context, s *Scene) (Lift, error) {
	primary := s.Primary()
	if err := primary.Fill(false); err != nil {
		return nil, err
	}
	return func(ctx context.Context) (Measure, error) {
		err := primary.Free(false)
		if !primary.Running() {
			err = errors.Join(err, primary.Start(ctx))
		}
		at := time.Now()
		return firstMove(s.Lab, "CLAIMED", at), err
	}, nil
}

func logDiskFull(ctx context.Context, s *Scene) (Lift, error) {
	const interval, limit = 50 * time.Millisecond, 20 * time.Second
	primary := s.Primary()
	if err := primary.Fill(true); err != nil {
		return nil, err
	}
	conn, err := s.Session(ctx)
	if err != nil {
		return nil, errors.Join(err, primary.Free(true))
	}
	defer func() { _ = conn.Close(ctx) }()
	for began := time.Now(); repeatOnce(ctx, conn, "switch_log") && time.Since(began) < limit; {
		_ = lab.Sleep(ctx, interval)
	}
	s.Logf("the session has ended: %t", conn.IsClosed())
	return func(ctx context.Context) (Measure, error) {
		err := primary.Free(true)
		if primary.Running() { // it may be in recovery, and exit at any moment
			err = errors.Join(err, primary.Kill())
		}
		err = errors.Join(err, primary.Start(ctx))
		at := time.Now()
		return firstMove(s.Lab, "CLAIMED", at), err
	}, nil
}

func noVacuum(ctx context.Context, s *Scene) (Lift, error) {
	at := time.Now()
	if err := s.Script(ctx, "vacuum_off"); err != nil {
		return nil, err
	}
	return func(ctx context.Context) (Measure, error) {
		return gap(s.Lab, "DISPATCHED", at), s.Script(ctx, "vacuum_on")
	}, nil
}
