package simulation

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pgdispatch/pgdispatch/dispatch/engine"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/test/simulation/simpg"
)

// call is a request to Postgres or Temporal that has not been answered.
type call struct {
	of    *replica
	name  string
	about int64 // what orders calls of the same name
	token int64 // of the item that is started or looked for
	came  int
	gone  bool // nobody waits for its answer
	stage byte // sent, open or done
	// run executes it; blocked reports whether a lock is in its way. Postgres' calls leave a transaction open.
	run     func() (err error, lost bool)
	blocked func() bool
	tx      *simpg.Tx
	tables  []table
	outcome engine.Outcome // of a start
	// arrives is what the replica learns from the answer.
	arrives func()
	answer  chan error // capacity 1
}

// The stages of a call.
const (
	isSent byte = iota
	isOpen
	isDone
)

// send registers a call and waits for its answer.
func (w *world) send(ctx context.Context, c *call) error {
	c.answer = make(chan error, 1)
	if w.lies == c.name+"s outlive their leases" {
		ctx = context.WithoutCancel(ctx)
	}
	w.mu.Lock()
	if c.of.dead {
		w.mu.Unlock()
		return errCut
	}
	w.came++
	c.came = w.came
	w.calls = append(w.calls, c)
	w.records(c.name, c.of.n, int(c.about), c.came)
	w.mu.Unlock()
	select {
	case err := <-c.answer:
		return err
	case <-ctx.Done():
		w.mu.Lock()
		defer w.mu.Unlock()
		w.endsLate(c)
		if c.gone = true; c.name == "wait" || c.name == "find" {
			w.calls = slices.DeleteFunc(w.calls, func(o *call) bool { return o == c })
		}
		return ctx.Err()
	}
}

// ask sends statements that are one transaction. A failed one has the answers of those before it.
func (w *world) ask(ctx context.Context, d *database, all ...sent) ([]table, error) {
	c := &call{of: d.of, name: describe(all)}
	var items []int64
	claims, reads, signals := false, true, false
	for _, one := range all {
		switch one.name {
		case "claim", "lock_claims", "claim_head":
			claims = w.lies != "claims take no turns"
		case "signal_take", "bring_back": // which a take would undo: a take writes all signals
			signals = true
		case "dispatched", "retry", "release", "fail", "heartbeat":
			if ids := one.args[0].([]int64); len(ids) > 0 {
				items, c.about = append(items, ids...), ids[0]
			}
		case "give_up_watches":
			items = append(items, itemsOf(one.args[1].([]string))...)
		case "finish":
			c.about = itemOf(one.args[0].(string))
			items = append(items, c.about)
		}
		reads = reads && slices.Contains([]string{"look", "load", "enqueued_before", "node_ids", "unlocked", "arrivals",
			"last_token"}, one.name)
	}
	c.blocked = func() bool { return claims && w.tables.Claims() || signals && w.takes() || w.tables.Locked(items) }
	c.run = func() (error, bool) {
		c.tx = w.tables.Begin(!d.async)
		for _, one := range all {
			found := handlers[one.name](w, d.of, c.tx, one.args)
			if refused := w.refusal; refused != nil {
				w.refusal = nil
				w.tables.Close(c.tx, false)
				return refused, false
			}
			c.tables = append(c.tables, found)
		}
		c.arrives, d.of.looked = d.of.looked, nil
		if reads {
			w.tables.Close(c.tx, false)
			c.tx = nil
		} else {
			w.notes(c.tx)
		}
		return nil, false
	}
	err := w.send(ctx, c)
	// Those before a statement that failed by itself were answered.
	if err != nil && !postgres.IsRefused(err) && !postgres.HasCode(err, postgres.LockNotAvailable) {
		return nil, err
	}
	return c.tables, err
}

// takes reports whether a transaction takes signals, which only one does at a time.
func (w *world) takes() bool {
	return slices.ContainsFunc(w.calls, func(c *call) bool { return c.name == "signal_take" && c.stage == isOpen })
}

// answers ends a call.
func (w *world) answers(c *call, err error) {
	w.endsLate(c)
	w.calls = slices.DeleteFunc(w.calls, func(o *call) bool { return o == c })
	if w.verbose {
		w.say("%s: %s of %d is answered, gone %t: %v", c.of.name, c.name, c.about, c.gone, err)
	}
	if err == nil && c.arrives != nil && !c.gone {
		c.arrives()
	}
	c.answer <- err
}

// pending are the calls that can go on, in an order that does not depend on the order of goroutines.
func (w *world) pending() (all []*call) {
	for _, c := range w.calls {
		if !c.gone && time.Now().Before(c.of.cutTo) {
			continue
		}
		held := c.name == "start" && !c.gone && (w.temporal.holds || time.Now().Before(w.temporal.hangsTo))
		if c.stage != isSent || !held && (c.blocked == nil || !c.blocked()) {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b *call) int {
		return cmp.Or(cmp.Compare(a.of.n, b.of.n), cmp.Compare(a.name, b.name), cmp.Compare(a.about, b.about),
			cmp.Compare(a.came, b.came))
	})
	return all
}

// locks are the calls that wait for a lock.
func (w *world) locks() (all []*call) {
	for _, c := range w.calls {
		if c.stage == isSent && c.blocked != nil && c.blocked() && !c.gone {
			all = append(all, c)
		}
	}
	return all
}

// goes takes a call as far as the choices say.
func (w *world) goes(c *call) {
	slow := func(name string) bool { return strings.Contains(c.name, name) }
	if !w.calm && !c.gone && slices.ContainsFunc(w.slow, slow) && w.IntN(8) > 0 {
		return
	}
	if c.stage == isSent {
		if c.gone && w.IntN(2) == 0 || w.rare(40) {
			w.count("unsent")
			w.say("%s: %s is not sent", c.of.name, c.name)
			w.answers(c, errCut)
			return
		}
		err, lost := c.run()
		if err != nil {
			w.answers(c, err)
			return
		}
		if c.stage = isOpen; c.tx == nil {
			c.stage = isDone
		}
		if lost {
			w.count("lost")
			w.answers(c, errCut)
			return
		}
		if w.IntN(3) == 2 {
			return
		}
	}
	if c.stage == isOpen {
		commits := !w.rare(30)
		w.commits(c.tx, commits)
		if c.stage = isDone; !commits {
			w.count("rolled back")
			w.say("%s: %s is rolled back", c.of.name, c.name)
			w.answers(c, errCut)
			return
		}
		if w.IntN(3) == 2 {
			return
		}
	}
	var err error
	unlucky := c.of.unlucky && !c.temporal()
	if c.of.unlucky = c.of.unlucky && !unlucky; w.rare(25) || unlucky && w.rare(3) {
		err = errCut
		w.count("lost")
		w.say("%s: the answer to %s is lost", c.of.name, c.name)
	}
	w.answers(c, err)
}
