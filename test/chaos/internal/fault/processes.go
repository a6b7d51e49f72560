package fault

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/lab"
)

// tcpUserTimeout is how long the server keeps a listener that does not read. The replicas set it themselves.
const tcpUserTimeout = 8 * time.Second

// processFaults are replicas that fail from inside, or that run short of a resource.
func processFaults() []*Fault {
	s := time.Second
	return []*Fault{
		{Name: "panic", Matrix: []int{13}, Domain: replicas,
			How: "a failpoint: a replica that starts a certain item panics", Lift: "nothing to lift",
			Figure: "until the item has used its attempts and failed, with every replica alive", Limit: 10,
			Alone: true, Inject: panics},
		{Name: "poison-item", Matrix: []int{14}, Domain: replicas,
			How: "a failpoint: a replica that starts a certain item dies, with all its leases", Lift: "all are restarted",
			Figure: "holders lost until it failed", Limit: 3, Unit: "kills", Alone: true, Inject: poisonItem},
		{Name: "heartbeat-stalls", Matrix: []int{19}, Domain: replicas,
			How: "a failpoint: only a replica's heartbeats hang, while a table lock blocks all settles " +
				"for longer than a lease", Lift: "both are lifted",
			Figure: "from the end to the first claim", Limit: postgresBack, Shortest: lab.Lease + s, Longest: lab.Lease + 2*s,
			Alone: true, Inject: heartbeatStalls},
		{Name: "out-of-memory", Matrix: []int{12}, Domain: replicas,
			How:    "a replica with rows of 1.5 MB gets no more memory, and crashes",
			Lift:   "it is restarted, and then the others",
			Figure: "until the last of its items is claimed again", Limit: deadHolder, Shortest: s / 2, Longest: s,
			Alone: true, Inject: outOfMemory},
		{Name: "few-files", Matrix: []int{73}, Domain: replicas,
			How: "a replica may open no more files, and all its connections are cut", Lift: "the limit is lifted",
			Figure: "from then on to its first claim, with more waiting than the others have workers for", Limit: temporalBack,
			Shortest: 3 * s, Longest: 4 * s, Alone: true, Inject: fewFiles},
		{Name: "frozen-listener", Matrix: []int{17}, Domain: replicas,
			How: "SIGSTOP of a replica while an unrelated session notifies some megabytes per second", Lift: "SIGCONT",
			Figure: "from when its listener's session cannot write any more until the server has ended it",
			Limit:  (tcpUserTimeout + 5*s).Seconds(), Alone: true, Inject: frozenListener},
	}
}

// failing inserts an item whose params trigger the failpoint in the replica that starts it.
func failing(ctx context.Context, s *Scene, failpoint string) (execution string, err error) {
	conn, err := s.Session(ctx)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }()
	execution = uuid.NewString()
	params := fmt.Sprintf(`{"ms": 1, "measured": true, "failpoint": %q}`, failpoint)
	return execution,
		s.Load.InsertFailing(ctx, conn, s.Load.Roomy, execution, params, false)
}

func panics(ctx context.Context, s *Scene) (Lift, error) {
	var before []string
	for _, r := range s.Replicas {
		before = append(before, r.PID())
	}
	at := time.Now()
	execution, err := failing(ctx, s, "panic")
	return once(func(ctx context.Context) (float64, error) {
		value, err := failed(s, execution, at)(ctx)
		for n, r := range s.Replicas {
			if r.PID() != before[n] || !r.Process().Running() {
				err = errors.Join(err, fmt.Errorf("replica %d has crashed", n))
			}
		}
		return value, err
	}), err
}

func poisonItem(ctx context.Context, s *Scene) (Lift, error) {
	const most, limit = 10, 90 * time.Second
	execution, err := failing(ctx, s, "kill")
	if err != nil {
		return nil, err
	}
	kills := 0
	err = lab.Await(ctx, limit, "the item fails", func() (bool, error) {
		for _, r := range s.Replicas {
			if r.Process().Running() {
				continue
			}
			kills++
			if err := r.Start(); err != nil {
				return false, err
			}
		}
		var at *time.Time
		err := s.Row(ctx, "failed", []any{execution}, &at)
		return at != nil || kills > most, err
	})
	return func(ctx context.Context) (Measure, error) {
		return func(context.Context) (float64, error) { return float64(kills), nil }, startAll(ctx, s)
	}, err
}

func heartbeatStalls(ctx context.Context, s *Scene) (Lift, error) {
	r, err := busiest(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := r.StallHeartbeat(true); err != nil {
		return nil, err
	}
	unlock, err := holdTransaction(ctx, s, "lock_executions")
	if err != nil {
		return nil, errors.Join(err, r.StallHeartbeat(false))
	}
	return func(ctx context.Context) (Measure, error) {
		at := time.Now()
		return firstMove(s.Lab, "CLAIMED", at), errors.Join(unlock(ctx), r.StallHeartbeat(false))
	}, nil
}

// limitReplica sets one of a replica's resource limits, up to the highest that it may have.
func limitReplica(r *lab.Replica, resource int, value uint64) error {
	var limit unix.Rlimit
	err := unix.Prlimit(r.Process().PID, resource, nil, &limit)
	if err == nil {
		limit.Cur = min(value, limit.Max)
		err = unix.Prlimit(r.Process().PID, resource, &limit, nil)
	}
	if err != nil {
		return fmt.Errorf("limit replica %d: %w", r.N, err)
	}
	return nil
}

// outOfMemory gives one replica no more memory and does not restrict the others: every replica that dies would have to
// be measured.
func outOfMemory(ctx context.Context, s *Scene) (Lift, error) {
	const rows, bytes, patience = 24, 1_500_000, 30 * time.Second
	r, err := busiest(ctx, s)
	if err != nil {
		return nil, err
	}
	size, err := memoryOf(r)
	if err != nil {
		return nil, err
	}
	if err := limitReplica(r, unix.RLIMIT_DATA, size); err != nil {
		return nil, err
	}
	stop := background(ctx, func(ctx context.Context) {
		for n := 0; r.Process().Running() && ctx.Err() == nil; n++ {
			_ = s.Load.InsertLarge(ctx, s.Load.Workspaces[6+n%2], rows, bytes)
			_ = lab.Sleep(ctx, answerLate)
		}
	})
	died := r.Process().EndsWithin(patience)
	at := time.Now()
	held, err := itemsOf(ctx, s, r.PID())
	stop()
	if !died {
		return nil, errors.Join(err, errors.New("the replica has not crashed"))
	}
	// The last output of a Go program that runs out of memory varies. An ordinary panic is not among the
	// possibilities.
	log, logErr := os.ReadFile(r.Process().LogPath)
	if logErr != nil || strings.Contains(string(log), "\npanic: ") {
		err = errors.Join(err, logErr, fmt.Errorf("replica %d died of something else\n%s", r.N, r.Process().Tail()))
	}
	s.Logf("replica %d held %d items", r.N, len(held))
	return func(ctx context.Context) (Measure, error) {
		value, measureErr := reclaimed(s.Lab, held, at)(ctx)
		m := func(context.Context) (float64, error) { return value, measureErr }
		// The other replicas have grown by the inserted load, which is not a leak. They are restarted for the later
		// comparison.
		return m, errors.Join(r.Start(), r.Ready(ctx), replace(ctx, s, func(*lab.Replica) {}))
	}, err
}

// memoryOf returns how much memory a replica may write to, in bytes. Its address space is larger: Go reserves it in
// pieces of 64 MB, and the last piece may suffice for a long time.
func memoryOf(r *lab.Replica) (uint64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", r.PID(), "statm"))
	if err != nil {
		return 0, fmt.Errorf("read memory of replica %d: %w", r.N, err)
	}
	pages, err := strconv.ParseUint(strings.Fields(string(text))[5], 10, 64)
	return pages * uint64(os.Getpagesize()), err
}

func fewFiles(ctx context.Context, s *Scene) (Lift, error) {
	const few = 4 // fewer than it has open already
	r, err := busiest(ctx, s)
	if err != nil {
		return nil, err
	}
	pid := r.PID()
	if err := limitReplica(r, unix.RLIMIT_NOFILE, few); err != nil {
		return nil, err
	}
	r.Postgres.Cut()
	r.Temporal.Cut()
	return func(ctx context.Context) (Measure, error) {
		if !r.Process().Running() {
			return nil, fmt.Errorf("replica %d has died of it\n%s", r.N, r.Process().Tail())
		}
		const plenty, waiting, millis = 4096, 200, 100
		at := time.Now()
		return claimedBy(s, pid, at), errors.Join(limitReplica(r, unix.RLIMIT_NOFILE, plenty),
			s.Load.InsertMany(ctx, s.Load.Workspaces[6], waiting, millis),
			s.Load.InsertMany(ctx, s.Load.Workspaces[7], waiting, millis))
	}, nil
}

// claimedBy measures the time from a moment until a replica has claimed.
func claimedBy(s *Scene, pid string, from time.Time) Measure {
	return func(ctx context.Context) (float64, error) {
		var at *time.Time
		err := lab.Await(ctx, 2*tolerance, "the replica claims", func() (bool, error) {
			err := s.Row(ctx, "claimed_by", []any{pid, from}, &at)
			return at != nil, err
		})
		if err != nil {
			return 0, err
		}
		return at.Sub(from).Seconds(), nil
	}
}

func frozenListener(ctx context.Context, s *Scene) (Lift, error) {
	conn, err := s.Session(ctx)
	if err != nil {
		return nil, err
	}
	r := pick(s)
	if err := r.Process().Signal(syscall.SIGSTOP); err != nil {
		return nil, err
	}
	stop := background(ctx, func(ctx context.Context) {
		const interval = 150 * time.Millisecond // a shorter interval would fill the disk before the server notices
		for lab.Sleep(ctx, interval) == nil && repeatOnce(ctx, conn, "large_notify") {
		}
	})
	// The buffers in between fill first.
	var at time.Time
	fullest := 0.0
	err = lab.Await(ctx, tcpUserTimeout+2*tolerance, "the server ends the listener's session", func() (bool, error) {
		var all, listeners, oldest, stuck int
		var usage float64
		err := errors.Join(s.Row(ctx, "sessions", []any{time.Time{}}, &all, &listeners),
			s.Row(ctx, "lag", nil, &usage, &oldest, &stuck))
		fullest = max(fullest, usage)
		if stuck > 0 && at.IsZero() {
			at = time.Now()
		}
		return listeners < len(s.Replicas), err
	})
	took := time.Since(at)
	if at.IsZero() {
		err = errors.Join(err, errors.New("no listener's session was observed waiting"))
	}
	s.Logf("the notification queue was at most %.3f %% full", 100*fullest)
	return func(ctx context.Context) (Measure, error) {
		stop()
		_ = conn.Close(ctx)
		return func(context.Context) (float64, error) { return took.Seconds(), nil }, r.Process().Signal(syscall.SIGCONT)
	}, err
}
