package fault

import (
	"context"
	"errors"
	"time"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/internal/proxy"
)

const (
	// holdTimeout bounds the wait until a replica is in the state that the fault needs.
	holdTimeout = 8 * time.Second
	// answerLate is long enough to act while an answer is delayed, and shorter than the start timeout.
	answerLate = 400 * time.Millisecond
)

// killFaults end replicas by SIGKILL, each at another point of an item's way.
func killFaults() []*Fault {
	s := time.Second
	return []*Fault{
		{Name: "kill", Matrix: []int{8, 9}, Domain: replicas,
			How: "kill -9 of a replica that holds items", Lift: "it is restarted",
			Figure: "until the last of its items is claimed again", Limit: deadHolder, Shortest: s / 2, Longest: 2 * s,
			Inject: kill(holding)},
		{Name: "kill-before-claim", Matrix: []int{1}, Domain: replicas,
			How: "kill -9 of a replica that holds nothing, while everything is paused", Lift: "resumed and restarted",
			Figure: "from the resumption to the first claim", Limit: onePoll, Shortest: s / 2, Longest: s,
			Alone: true, Inject: killIdle},
		{Name: "kill-in-claim", Matrix: []int{2, 7}, Domain: replicas,
			How:    "a table lock stops claims and settles before their commit, and kill -9 of the replica",
			Lift:   "the lock is released",
			Figure: "until the last of its items is claimed again", Limit: deadHolder, Shortest: s, Longest: s, Alone: true,
			Inject: killInTransaction},
		{Name: "kill-claim-unread", Matrix: []int{3}, Domain: replicas,
			How:    "an answer of Postgres with claimed items is dropped, and kill -9 of the replica",
			Lift:   "it is restarted",
			Figure: "until the last of its items is claimed again", Limit: deadHolder, Shortest: s / 2, Longest: s,
			Alone: true, Inject: killUnread},
		{Name: "kill-before-start", Matrix: []int{4}, Domain: replicas,
			How: "the start request is dropped, and kill -9 of the replica", Lift: "it is restarted",
			Figure: "until the last of its items is claimed again", Limit: deadHolder, Shortest: s / 2, Longest: s,
			Inject: kill(inStart(proxy.Rule{Swallow: true}))},
		{Name: "kill-start-unread", Matrix: []int{5}, Domain: replicas,
			How: "Temporal's answer to the start is dropped, and kill -9 of the replica", Lift: "it is restarted",
			Figure: "until the last of its items is claimed again", Limit: deadHolder, Shortest: s / 2, Longest: s,
			Inject: kill(inStart(proxy.Rule{Void: true}))},
		{Name: "kill-before-settle", Matrix: []int{6}, Domain: replicas,
			How: "the start is answered while Postgres is unreachable, and kill -9 of the replica", Lift: "it is restarted",
			Figure: "until the last of its items is claimed again", Limit: deadHolder, Shortest: s / 2, Longest: s, Alone: true,
			Inject: killUnsettled},
		{Name: "kill-all", Matrix: []int{10}, Domain: replicas, How: "kill -9 of all replicas", Lift: "all are restarted",
			Figure: "from the restart to the first start of a workflow", Limit: 5, Shortest: 2 * s,
			Longest: 5 * s, Inject: killAll},
	}
}

// restart is the lift of faults that leave a replica dead.
func restart(r *lab.Replica, m Measure) Lift {
	return func(ctx context.Context) (Measure, error) {
		r.Heal()
		return m, errors.Join(r.Start(), r.Ready(ctx))
	}
}

func pick(s *Scene) *lab.Replica { return s.Replicas[s.Rand.IntN(len(s.Replicas))] }

// busiest returns the replica that claimed last and is alive.
func busiest(ctx context.Context, s *Scene) (*lab.Replica, error) {
	var pid string
	if err := s.Row(ctx, "last_claimer", nil, &pid); err != nil {
		return nil, err
	}
	for _, r := range s.Replicas {
		if r.PID() == pid && r.Process().Running() {
			return r, nil
		}
	}
	return pick(s), nil
}

// itemsOf returns the items that a replica holds now.
func itemsOf(ctx context.Context, s *Scene, pid string) (held []int64, err error) {
	err = s.Row(ctx, "items_of", []any{pid}, &held)
	return held, err
}

// killNow kills a replica, and measures the time from then until its items are claimed again.
func killNow(ctx context.Context, s *Scene, r *lab.Replica) (Lift, error) {
	pid, at := r.PID(), time.Now()
	if err := r.Kill(); err != nil {
		return nil, err
	}
	held, err := itemsOf(ctx, s, pid)
	s.Logf("replica %d held %d items", r.N, len(held))
	return restart(r, reclaimed(s.Lab, held, at)), err
}

// holding returns a replica that holds items and will for a moment: half of its starts are answered late, the others
// are not. In a safety run, where other faults may have set the proxies' rules, it returns the busiest replica.
func holding(ctx context.Context, s *Scene) (*lab.Replica, error) {
	if !s.Measured {
		return busiest(ctx, s)
	}
	return caught(ctx, s, proxy.Rule{Share: 0.5, Delay: lab.StartTimeout * 9 / 10})
}

// kill kills the chosen replica, which should hold items.
func kill(choose func(context.Context, *Scene) (*lab.Replica, error)) func(context.Context, *Scene) (Lift, error) {
	return func(ctx context.Context, s *Scene) (Lift, error) {
		r, err := choose(ctx, s)
		if err != nil {
			return nil, err
		}
		return killNow(ctx, s, r)
	}
}

func killIdle(ctx context.Context, s *Scene) (Lift, error) {
	r := pick(s)
	if err := s.Insist(ctx, "set_pause", true); err != nil {
		return nil, err
	}
	err := lab.Await(ctx, holdTimeout, "the replica holds nothing", func() (bool, error) {
		held, err := itemsOf(ctx, s, r.PID())
		return len(held) == 0, err
	})
	if err = errors.Join(err, r.Kill()); err != nil {
		return nil, errors.Join(err, s.Insist(ctx, "set_pause", false))
	}
	return func(ctx context.Context) (Measure, error) {
		at := time.Now()
		err := s.Insist(ctx, "set_pause", false)
		return firstMove(s.Lab, "CLAIMED", at), errors.Join(err, r.Start(), r.Ready(ctx))
	}, err
}

func killInTransaction(ctx context.Context, s *Scene) (Lift, error) {
	r, err := busiest(ctx, s)
	if err != nil {
		return nil, err
	}
	unlock, err := holdTransaction(ctx, s, "lock_executions")
	if err != nil {
		return nil, err
	}
	pid := r.PID()
	err = errors.Join(lab.Sleep(ctx, answerLate), r.Kill())
	return func(ctx context.Context) (Measure, error) {
		err := errors.Join(unlock(ctx), lab.Sleep(ctx, answerLate/2))
		at := time.Now()
		held, heldErr := itemsOf(ctx, s, pid)
		return reclaimed(s.Lab, held, at), errors.Join(err, heldErr, r.Start(), r.Ready(ctx))
	}, err
}

// killUnread kills the first replica whose claim committed but whose answer was lost.
func killUnread(ctx context.Context, s *Scene) (Lift, error) {
	const items = 300 // bytes of an answer with an item; answers without items have half as many
	policy := proxy.Policy{DropReplies: 1, DropFrom: items, Label: "pgdispatch", Except: "pgdispatch "}
	before := make([]int, len(s.Replicas))
	for n, r := range s.Replicas {
		before[n] = r.Postgres.Dropped()
		r.Postgres.Set(policy)
	}
	var found *lab.Replica
	err := lab.Await(ctx, holdTimeout, "a claim's answer is dropped", func() (bool, error) {
		for n, r := range s.Replicas {
			if r.Postgres.Dropped() == before[n] {
				continue
			}
			held, err := itemsOf(ctx, s, r.PID())
			if err != nil || len(held) > 0 {
				found = r
				return true, err
			}
			before[n] = r.Postgres.Dropped() // it was a long answer of another kind
			r.Postgres.Set(policy)
		}
		return false, nil
	})
	for _, r := range s.Replicas {
		r.Postgres.Set(proxy.Policy{})
	}
	if err != nil {
		return nil, err
	}
	return killNow(ctx, s, found)
}

// inStart chooses the first replica that has a start under way to which the rule applies.
func inStart(rule proxy.Rule) func(context.Context, *Scene) (*lab.Replica, error) {
	return func(ctx context.Context, s *Scene) (*lab.Replica, error) { return caught(ctx, s, rule) }
}

// caught applies the rule to every replica's starts until the first replica has a start under way, and then removes it
// from the others.
func caught(ctx context.Context, s *Scene, rule proxy.Rule) (*lab.Replica, error) {
	rule.Method = proxy.Start
	var found *lab.Replica
	for _, r := range s.Replicas {
		r.Frontend.Set(rule)
	}
	err := lab.Await(ctx, holdTimeout, "a replica is in a start", func() (bool, error) {
		for _, r := range s.Replicas {
			if found == nil && r.Frontend.Hits() > 0 && r.Process().Running() {
				found = r
			}
		}
		return found != nil, nil
	})
	for _, r := range s.Replicas {
		if r != found {
			r.Frontend.Set(proxy.Rule{})
		}
	}
	return found, err
}

func killUnsettled(ctx context.Context, s *Scene) (Lift, error) {
	r, err := caught(ctx, s, proxy.Rule{Delay: answerLate})
	if err != nil {
		return nil, err
	}
	r.Postgres.Set(proxy.Policy{Hole: true})
	if err := lab.Sleep(ctx, answerLate+answerLate/2); err != nil {
		return restart(r, nil), err
	}
	lift, err := killNow(ctx, s, r)
	r.Postgres.Cut() // the last data that it sent is lost, as when a machine dies
	return lift, err
}

func killAll(ctx context.Context, s *Scene) (Lift, error) {
	var err error
	for _, r := range s.Replicas {
		err = errors.Join(err, r.Kill())
	}
	return func(ctx context.Context) (Measure, error) {
		at := time.Now()
		return firstMove(s.Lab, "DISPATCHED", at), startAll(ctx, s)
	}, err
}

func startAll(ctx context.Context, s *Scene) error {
	var err error
	for _, r := range s.Replicas {
		err = errors.Join(err, r.Start())
	}
	for _, r := range s.Replicas {
		err = errors.Join(err, r.Ready(ctx))
	}
	return err
}
