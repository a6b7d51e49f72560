package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/test/simulation/simpg"
)

// mostAtOnce is how often replicas may ask for items without any time or any call in between.
const mostAtOnce = 1000

// mostVain is how many claims of a replica in a row may give nothing and ask for another at once.
const mostVain = 60

// leases is the store as a replica's dispatcher sees it. It checks what the replica does with what it is told.
type leases struct {
	*claim.Store
	of *replica
}

// wants notes what the next claim is to ask for.
func (l leases) wants(wanted claim.Wanted) {
	defer l.locked()()
	l.of.fresh = wanted.Fresh
}

func (l leases) SettleAndClaim(ctx context.Context, started []claim.Settlement,
	wanted claim.Wanted) (batch claim.Batch, settled []int64, err error) {
	if l.spins() {
		time.Sleep(time.Second)
		return batch, nil, errCut
	}
	l.settles(started)
	if l.of.world.lies == "all workers may repeat starts" {
		wanted.Reserved = 0
	}
	l.wants(wanted)
	batch, settled, err = l.Store.SettleAndClaim(ctx, started, wanted)
	if err == nil {
		l.settled(claim.Dispatched, started, settled)
	}
	lanes := map[string]int{}
	for _, item := range batch.Items {
		lanes[item.Lane()]++
		l.loses(item.ID, func(token int64) bool { return token != item.Token })
	}
	defer l.locked()()
	if l.of.passedOver {
		l.of.passedOver, l.of.passedOverAt = false, time.Now()
	}
	for lane, items := range lanes {
		if allowed, limited := wanted.Namespaces[lane]; limited && items > allowed || len(batch.Items) > wanted.AtMost {
			l.breaks("%d items of %s are claimed, where %d are wanted", items, lane, allowed)
		}
	}
	switch l.of.world.lies {
	case "settled starts are not reported":
		settled = nil
	case "more is due always":
		batch.More, batch.Capped = true, false
	case "nothing more is due":
		batch.More = false
	case "looks never end":
		batch.LookAgainIn = 0
	}
	if batch.Unannounced > 0 && !l.of.world.tables.Unseen {
		l.breaks("%d workspaces count as unannounced, though all was", batch.Unannounced)
	}
	if repeated := len(batch.Items); repeated > 0 && repeated == wanted.AtMost && l.of.seesUnanswered() && !batch.More &&
		!slices.ContainsFunc(batch.Items, func(i claim.Item) bool { return !i.Unanswered }) &&
		time.Since(l.of.passedOverAt) > lease { // a claim that gave none delays the next, and clocks are estimated
		l.breaks("%d unanswered starts are repeated and more are not", repeated)
	}
	switch l.of.vain++; {
	case len(batch.Items)+len(settled) > 0 || batch.LookAgainIn < 0 || batch.LookAgainIn > 5*time.Millisecond:
		l.of.vain = 0
	case l.of.vain > mostVain:
		l.breaks("looks without a pause")
	}
	return batch, settled, err
}

func (l leases) Settle(ctx context.Context, verb claim.Verb, batch []claim.Settlement) ([]int64, error) {
	l.settles(batch)
	settled, err := l.Store.Settle(ctx, verb, slices.Clone(batch))
	if err == nil || postgres.IsRefused(err) {
		l.settled(verb, batch, settled)
	}
	return settled, err
}

func (l leases) Heartbeat(ctx context.Context, held []claim.Held) ([]int64, error) {
	renewed, err := l.Store.Heartbeat(ctx, held)
	for _, h := range held {
		if err == nil && !slices.Contains(renewed, h.ID) {
			l.loses(h.ID, func(token int64) bool { return token == h.Token })
		}
	}
	switch l.of.world.lies {
	case "heartbeats renew nothing":
		renewed = nil
	case "lost leases are not told":
		for _, h := range held {
			renewed = append(renewed, h.ID)
		}
	}
	return renewed, err
}

// startedLease is the lease of an item that a replica is starting.
type startedLease struct {
	lost    bool
	repeats bool // a start of an item that keeps its slot
}

// begins notes that a replica begins to start an item, and returns what notes that it no longer does.
func (r *replica) begins(item claim.Item) (ends func()) {
	held := claim.Held{ID: item.ID, Token: item.Token}
	defer leases{of: r}.locked()()
	r.starting[held] = &startedLease{repeats: item.Unanswered}
	repeating := 0
	for _, start := range r.starting {
		if start.repeats {
			repeating++
		}
	}
	if repeating > max(perHost/4, 1) {
		leases{of: r}.breaks("%d of %d workers repeat starts", repeating, perHost)
	}
	return func() {
		defer leases{of: r}.locked()()
		delete(r.starting, held)
	}
}

// loses notes that leases of an item that the replica is starting are lost. A start that has been answered, though it
// has not returned, may be settled nevertheless.
func (l leases) loses(item int64, tokens func(int64) bool) {
	defer l.locked()()
	for held, start := range l.of.starting {
		start.lost = start.lost || held.ID == item && tokens(held.Token)
	}
	for _, c := range l.of.world.calls {
		if c.of == l.of && c.name == "start" && c.about == item && tokens(c.token) && !c.gone {
			l.of.lost[claim.Held{ID: item, Token: c.token}] = true
		}
	}
}

// spins reports whether replicas ask for items without end.
func (l leases) spins() bool {
	defer l.locked()()
	if l.of.world.atOnce++; l.of.world.atOnce <= mostAtOnce {
		return false
	}
	l.breaks("replicas ask for items without a pause")
	return true
}

// settles checks that a replica settles no claim whose lease it was told is lost while it was starting the item.
func (l leases) settles(batch []claim.Settlement) {
	defer l.locked()()
	for _, s := range batch {
		if l.of.lost[claim.Held{ID: s.ID, Token: s.Token}] {
			l.breaks("the lost lease of item %d is settled", s.ID)
		}
	}
}

// settled checks that what was not settled is lost. What was started and settled must be reported at once.
func (l leases) settled(verb claim.Verb, batch []claim.Settlement, settled []int64) {
	defer l.locked()()
	w := l.of.world
	for _, s := range batch {
		switch is := slices.Contains(settled, s.ID); {
		case is && verb == claim.Dispatched:
			l.of.unreported[s.ID] = true
		case !is && w.counts["clock jumps"] == 0 && !w.passedOver[s.ID] && w.tables.LeaseLeft(s.ID, s.Token) > 0:
			l.breaks("the lease of item %d is taken for lost, though it lasts", s.ID)
		}
	}
}

// locked locks the world and returns what unlocks it.
func (l leases) locked() func() {
	l.of.world.mu.Lock()
	return l.of.world.mu.Unlock
}

// breaks says what is wrong with what a replica does by itself. The caller holds the lock of the world.
func (l leases) breaks(format string, args ...any) {
	if l.of.world.wrong == "" {
		l.of.world.wrong = fmt.Sprintf(format, args...) + " by " + l.of.name
	}
}

// unread reports, once in so many times, that a claim's answer cannot be read though nothing else fails.
func (r *replica) unread(times int) bool {
	return r.world.quiet && !r.world.calm && r.world.IntN(times) == times-1
}

// claimsAlone checks that a claim waits for the one before it.
func (w *world) claimsAlone() {
	if w.tables.Claims() {
		w.broken = "two claims are made at once"
	}
}

// mostDeclined is how often a claim of a workspace may be declined before a load: answers to claims can be lost.
const mostDeclined = 6

// seesUnanswered reports whether the last look saw starts to repeat, of which the clock says so still: it may have been
// set back since.
func (r *replica) seesUnanswered() bool {
	return !r.unansweredDue.IsZero() && r.unansweredDue.Before(r.world.now().Add(-time.Second))
}

// declines checks that what claim_plain cannot do is not asked of it again and again.
func (r *replica) declines(c simpg.Claimed, noEpoch bool) {
	if noEpoch {
		r.world.broken = "a plain claim knows no epoch"
	}
	if c.Declined {
		r.declined++
	}
	for _, workspace := range c.Rated {
		if r.rated[workspace]++; r.rated[workspace] > mostDeclined {
			r.world.broken = fmt.Sprintf("claims of workspace %d by %s are declined again and again", workspace[0], r.name)
		}
	}
	if r.declined > mostDeclined {
		r.world.broken = fmt.Sprintf("claims by %s are declined again and again", r.name)
	}
}

// nodes checks that an item has the graph of its claim or a later one.
func (w *world) nodes(item claim.Item) string {
	nodes, err := strconv.Atoi(string(item.NodeIDs))
	if err != nil || w.tables.IsOutdated(nodes, item.ID, item.Token) {
		return fmt.Sprintf("item %d is started with an outdated graph, %q", item.ID, item.NodeIDs)
	}
	return ""
}

// givenUp checks that a start is given up for a lost lease only if its own is lost.
func (r *replica) givenUp(ctx context.Context, item claim.Item) {
	defer leases{of: r}.locked()()
	if start := r.starting[claim.Held{ID: item.ID, Token: item.Token}]; errors.Is(context.Cause(ctx), claim.ErrLost) &&
		!start.lost {
		leases{of: r}.breaks("the start of item %d is given up, though its lease lasts", item.ID)
	}
}

// endsLate checks that a call that is answered or given up did not outlive its lease.
func (w *world) endsLate(c *call) {
	if c.token == 0 || c.gone || w.liesOfLeases() ||
		w.counts["clock jumps"]+w.counts["failovers"]+w.counts["crashes"] > 0 {
		return
	}
	w.tables.SetNow(w.now())
	if left := w.tables.LeaseLeft(c.about, c.token); left < 0 {
		leases{of: c.of}.breaks("the %s of item %d outlives its lease: %s", c.name, c.about, left)
	}
}

// liesOfLeases reports whether other invariants see the planted mistake.
func (w *world) liesOfLeases() bool {
	return w.lies == "leases end early" || w.lies == "tokens are not compared"
}

// beyondLeases says what is wrong with leases: a start must leave a tenth of its own. A crash may forget that a lease
// was extended.
func (w *world) beyondLeases() string {
	for _, r := range w.replicas {
		for item := range r.unreported {
			return fmt.Sprintf("the start of item %d is settled, and %s does not report it", item, r.name)
		}
	}
	if w.quiet && w.tables.HasExpired() {
		return "a lease ends, though nothing fails"
	}
	if w.counts["clock jumps"]+w.counts["failovers"] > 0 || w.liesOfLeases() {
		return ""
	}
	for _, c := range w.calls {
		if c.name != "start" || c.gone {
			continue
		}
		if left := w.tables.LeaseLeft(c.about, c.token); left < lease/10 {
			return fmt.Sprintf("the start of item %d is waited for, though its lease ends: %s", c.about, left)
		}
	}
	return ""
}
