package fault

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/internal/proxy"
)

func temporalFaults() []*Fault {
	s := time.Second
	const (
		first   = "from Temporal's return to the first start of a workflow"
		longest = "the longest time without a start"
	)
	return append([]*Fault{
		{Name: "temporal-kill", Matrix: []int{42}, Domain: server,
			How: "kill -9 of Temporal", Lift: "it is restarted on its database",
			Figure: first, Limit: temporalBack, Longest: s, Inject: temporalKill},
		{Name: "temporal-down", Matrix: []int{42}, Domain: server,
			How: "Temporal is killed and stays down for longer than two leases", Lift: "it is restarted on its database",
			Figure: first, Limit: temporalBack, Shortest: 2*lab.Lease + s/2, Longest: 3 * lab.Lease, Inject: temporalKill},
		{Name: "temporal-frozen", Matrix: []int{44}, Domain: server,
			How: "SIGSTOP of Temporal: starts are accepted, and answered or not when it resumes", Lift: "SIGCONT",
			Figure: first, Limit: temporalBack, Shortest: lab.Lease, Longest: lab.Lease + 2*s, Inject: temporalFrozen},
		{Name: "temporal-partition-one", Matrix: []int{55}, Domain: server,
			How: "nothing passes between the busiest replica and Temporal", Lift: "held data is delivered",
			Figure: longest, Limit: oneReplicaOut, Shortest: 3 * s, Longest: lab.Lease + 2*s, Inject: temporalPartition(true)},
		{Name: "temporal-partition-all", Matrix: []int{55}, Domain: server,
			How:    "nothing passes between the replicas and Temporal for longer than a lease",
			Lift:   "held data is delivered",
			Figure: first, Limit: temporalBack, Shortest: lab.Lease + s, Longest: lab.Lease + 2*s,
			Inject: temporalPartition(false)},
		{Name: "temporal-flaps", Matrix: []int{46}, Domain: server,
			How: "Temporal rejects every start for one second, and accepts them for the next", Lift: "it accepts them",
			Figure: longest, Limit: temporalBack, Shortest: 4 * s, Longest: 6 * s, Inject: temporalFlaps},
	}, answerFaults()...)
}

// answerFaults are what becomes of single calls.
func answerFaults() (f []*Fault) {
	const s = time.Second
	strange := strings.Repeat("a long story \x00 \xff\xfe ", 400)
	for _, one := range []struct {
		name, how string
		matrix    []int
		rule      proxy.Rule
	}{
		{"end-unanswered", "half of the questions how a workflow or an activity ended are not answered", []int{43},
			proxy.Rule{Method: proxy.End, Share: 0.5, Void: true}},
		{"end-answered-late", "every answer how one ended comes two seconds late", []int{44},
			proxy.Rule{Method: proxy.End, Delay: 2 * s}},
		{"end-refused", "every such question is rejected with Unavailable", []int{46},
			proxy.Rule{Method: proxy.End, Refuse: status.Error(codes.Unavailable, "not now")}},
		{"start-unanswered", "every start takes effect and none is answered", []int{43},
			proxy.Rule{Method: proxy.Start, Void: true}},
		{"start-denied-and-done", "a third of the starts takes effect and is answered with an error", []int{43},
			proxy.Rule{Method: proxy.Start, Share: 0.33, Lie: status.Error(codes.Unavailable, "it broke")}},
		{"start-answered-late", "every answer to a start comes after the replica has stopped waiting for it", []int{44},
			proxy.Rule{Method: proxy.Start, Delay: lab.StartTimeout + lab.StartTimeout/2}},
		{"start-exhausted", "half of the starts are rejected with ResourceExhausted", []int{45},
			proxy.Rule{Method: proxy.Start, Share: 0.5, Refuse: status.Error(codes.ResourceExhausted, "too much")}},
		{"start-forbidden", "every start is rejected with PermissionDenied", []int{49},
			proxy.Rule{Method: proxy.Start, Refuse: status.Error(codes.PermissionDenied, "not for you")}},
		{"namespace-missing", "every call is rejected with NotFound", []int{49},
			proxy.Rule{Method: proxy.Start, Refuse: status.Error(codes.NotFound, "Namespace default is not found.")}},
		{"strange-error", "every start is rejected with a long text that has a zero byte and is not UTF-8", []int{69},
			proxy.Rule{Method: proxy.Start, Refuse: status.Error(codes.Unavailable, strange)}},
	} {
		status, figure := "DISPATCHED", "from the end to the first start of a workflow"
		if one.rule.Method == proxy.End {
			status, figure = "COMPLETED", "from the end to the first end of a workflow"
		}
		f = append(f, &Fault{Name: one.name, Matrix: one.matrix, Domain: server, How: one.how, Lift: "forwarding resumes",
			Figure: figure, Limit: temporalBack, Shortest: 2 * s, Longest: 4 * s,
			Inject: frontendRule(one.rule, status)})
	}
	return f
}

func temporalKill(_ context.Context, s *Scene) (Lift, error) {
	return func(context.Context) (Measure, error) {
		if err := s.TemporalUp(); err != nil {
			return nil, err
		}
		return firstMove(s.Lab, "DISPATCHED", time.Now()), nil
	}, s.TemporalDown()
}

func temporalFrozen(_ context.Context, s *Scene) (Lift, error) {
	p := s.Temporal.Process()
	return func(context.Context) (Measure, error) {
		at := time.Now()
		return firstMove(s.Lab, "DISPATCHED", at), p.Signal(syscall.SIGCONT)
	}, p.Signal(syscall.SIGSTOP)
}

func temporalPartition(one bool) func(context.Context, *Scene) (Lift, error) {
	return func(ctx context.Context, s *Scene) (Lift, error) {
		cut := s.Replicas
		if one {
			r, err := busiest(ctx, s)
			if err != nil {
				return nil, err
			}
			cut = []*lab.Replica{r}
		}
		at := time.Now()
		for _, r := range cut {
			r.Temporal.Set(proxy.Policy{Hole: true})
		}
		return func(ctx context.Context) (Measure, error) {
			m := firstMove(s.Lab, "DISPATCHED", time.Now())
			if one {
				value, err := gap(s.Lab, "DISPATCHED", at)(ctx) // while it is still cut off
				m = func(context.Context) (float64, error) { return value, err }
			}
			for _, r := range cut {
				r.Temporal.Set(proxy.Policy{})
			}
			return m, nil
		}, nil
	}
}

func setRule(s *Scene, rule proxy.Rule) {
	for _, r := range s.Replicas {
		r.Frontend.Set(rule)
	}
}

func frontendRule(rule proxy.Rule, status string) func(context.Context, *Scene) (Lift, error) {
	return func(_ context.Context, s *Scene) (Lift, error) {
		setRule(s, rule)
		return func(context.Context) (Measure, error) {
			hits := 0
			for _, r := range s.Replicas {
				hits += r.Frontend.Hits()
			}
			s.Logf("%d calls were affected", hits)
			at := time.Now()
			setRule(s, proxy.Rule{})
			if hits == 0 {
				return nil, errors.New("no call was affected")
			}
			return firstMove(s.Lab, status, at), nil
		}, nil
	}
}

func temporalFlaps(ctx context.Context, s *Scene) (Lift, error) {
	const interval = time.Second
	away := false
	return repeatedly(ctx, s, interval, func() {
		away = !away
		if away {
			setRule(s, proxy.Rule{Method: proxy.Start, Refuse: status.Error(codes.Unavailable, "flapping")})
		} else {
			setRule(s, proxy.Rule{})
		}
	}, func() { setRule(s, proxy.Rule{}) }), nil
}
