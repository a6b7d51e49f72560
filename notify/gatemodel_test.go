package notify

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// This explores every interleaving of two replicas, whose gates are real ones, with transactions that insert a row, and
// of a session that is lost. Each replica has one worker. A step that is not required may never happen: transactions
// stay open and workers busy forever. Nobody polls, except after a session was lost.

const (
	replicas     = 2
	transactions = 2
)

// States of a transaction.
const (
	unborn    = iota
	locked    // has inserted, holds the gate's lock shared, and will read the gate
	toldOpen  // read that no notification is needed, and holds the lock
	toldShut  // read that it must notify at commit, and holds the lock
	committed // its row can be claimed
	taken     // its row has been claimed
)

const waits, steps, stepsForDuty = 0, 1, 2 // what the goroutine of a gate does next

// lingering added to a replica is its session after the replica gave it up and before Postgres ends it.
const lingering, nobody = replicas, 2 * replicas

type world struct {
	txs  [transactions]uint8
	reps [replicas]replica
	open bool  // the gate's value
	duty uint8 // whose session is on duty
	lost bool  // whether the first replica has lost a session; it loses only one
}

type replica struct {
	// Fields of the gate.
	wish                                   wish
	call, duty, asleep, opened, told, shut bool

	// The gate's session and goroutine.
	next                     uint8
	connected, cut, mustTick bool

	busy, ring, notified bool // its worker is busy; it has been woken; a notification is underway to it
}

// rule is an assumption of the gate; tests disable each to see what fails.
type rule string

const (
	noRuleBroken    rule = ""
	noWaiting       rule = "the gate counts as shut while a transaction is open that read it as open"
	noLookMeanwhile rule = "a replica that waits for the lock does not look meanwhile"
	readFirst       rule = "the gate is read before its lock is taken"
	noHandingOver   rule = "a busy replica keeps duty"
	noCall          rule = "a call is not heard"
)

type step struct {
	world
	must bool // required: it happens at some time
}

// explorer collects the next steps of a world.
type explorer struct {
	broken rule
	next   []step
}

func (x *explorer) add(w world, must bool) { x.next = append(x.next, step{w, must}) }

// from returns the next steps of a world.
func (x *explorer) from(w world) []step {
	x.next = x.next[:0]
	for i := range w.txs {
		x.transact(w, i)
	}
	for r := range w.reps {
		x.listen(w, r)
		x.dispatch(w, r)
		x.run(w, r)
	}
	if w.duty >= lingering && w.duty != nobody { // Postgres ends the session that its replica has given up
		w.duty = nobody
		w.tickSoon()
		x.add(w, true)
	}
	return x.next
}

// tickSoon requires the next tick of all gates, for what only they can notice.
func (w *world) tickSoon() {
	for r := range w.reps {
		w.reps[r].mustTick = true
	}
}

// transact continues a transaction.
func (x *explorer) transact(w world, i int) {
	told := uint8(toldShut)
	if w.open {
		told = toldOpen
	}
	switch w.txs[i] {
	case unborn:
		w.txs[i] = locked
		if x.broken == readFirst {
			w.txs[i] = told // and has no lock yet
		}
	case locked:
		w.txs[i] = told
	case toldOpen, toldShut:
		for r := range w.reps {
			w.reps[r].notified = w.reps[r].notified || w.txs[i] == toldShut
		}
		w.txs[i] = committed
	default:
		return
	}
	x.add(w, false)
}

// listen delivers a notification that is underway to a replica.
func (x *explorer) listen(w world, r int) {
	if rep := &w.reps[r]; rep.notified {
		rep.notified, rep.ring = false, rep.ring || rep.duty
		x.add(w, true)
	}
}

// dispatch takes a step of a replica's dispatcher.
func (x *explorer) dispatch(w world, r int) {
	rep := w.reps[r]
	waiting := rep.wish == shut && rep.duty && !rep.asleep && x.broken != noLookMeanwhile
	switch {
	case rep.busy:
		freed := w
		freed.reps[r].busy, freed.reps[r].ring = false, true
		x.add(freed, false)
		if rep.wish != leave && x.broken != noHandingOver {
			w.with(r, (*Gate).Busy)
			x.add(w, true)
		}
	case rep.ring || rep.wish == open || waiting:
		w.reps[r].ring = false
		if row := slices.Index(w.txs[:], committed); row >= 0 {
			w.txs[row] = taken
			w.reps[r].busy = true
			x.add(w, true)
			return
		}
		awake := w
		w.with(r, (*Gate).Sleep)
		x.add(w, true)
		awake.with(r, (*Gate).Awake)
		x.add(awake, false)
	}
}

// run takes a step of the goroutine of a replica's gate.
func (x *explorer) run(w world, r int) {
	rep := &w.reps[r]
	if !rep.connected {
		rep.connected, rep.cut, rep.next, rep.opened = true, false, stepsForDuty, false
		x.add(w, true)
		return
	}
	if !w.lost && r == 0 && w.duty == 0 {
		w := w // Postgres ends the session
		w.lost, w.reps[r].cut, w.duty = true, true, nobody
		w.tickSoon()
		x.add(w, false)
	}
	if rep.next != waits || rep.told || rep.shut {
		x.serve(w, r, func(g *Gate, s *probe) (uint8, error) {
			tryDuty := rep.next == stepsForDuty
			if rep.next == waits && len(g.changed) > 0 {
				<-g.changed
				tryDuty = true
			}
			busy, err := g.step(context.Background(), s, tryDuty)
			return map[bool]uint8{true: steps, false: waits}[busy], err
		})
	}
	if rep.next == waits && rep.mustTick {
		rep.mustTick = false
		x.serve(w, r, func(g *Gate, s *probe) (uint8, error) {
			return stepsForDuty, g.confirm(context.Background(), s)
		})
	}
}

// serve lets a gate use its session. Each call of the first replica may lose it, if it has lost none yet.
func (x *explorer) serve(w world, r int, use func(*Gate, *probe) (uint8, error)) {
	calm, made := x.use(w, r, use, probe{})
	x.add(calm, true)
	if w.lost || r > 0 {
		return
	}
	for n := 1; n <= made; n++ {
		for _, answered := range []bool{false, true} {
			failed, _ := x.use(w, r, use, probe{nth: n, effect: answered})
			x.add(failed, false)
		}
	}
}

func (x *explorer) use(w world, r int, use func(*Gate, *probe) (uint8, error), s probe) (world, int) {
	s.world, s.r, s.broken = &w, r, x.broken
	var next uint8
	var err error
	w.with(r, func(g *Gate) {
		next, err = use(g, &s)
		if err != nil { // as Run
			g.duty, g.asleep = false, false
		}
	})
	if w.reps[r].next = next; err != nil {
		w.reps[r].connected, w.reps[r].next, w.lost = false, waits, true
		if w.duty == uint8(r) {
			w.duty += lingering
		} else if w.duty == nobody {
			w.tickSoon()
		}
	}
	return w, s.made
}

// with runs the gate of a replica in its present state, and keeps the state in which that leaves it. Pauses between
// attempts to shut the gate take any time.
func (w *world) with(r int, do func(g *Gate)) {
	rep := &w.reps[r]
	g := &Gate{wish: rep.wish, call: rep.call, duty: rep.duty, asleep: rep.asleep, opened: rep.opened,
		Shutting: func() { rep.ring = true }}
	if rep.shut {
		g.shutAt = time.Now().Add(-time.Hour)
	}
	if g.init(); rep.told {
		g.changed <- struct{}{}
	}
	do(g)
	rep.wish, rep.call, rep.duty, rep.asleep, rep.opened = g.wish, g.call, g.duty, g.asleep, g.opened
	rep.told, rep.shut = len(g.changed) > 0, !g.shutAt.IsZero()
}

// probe is the session of a replica. Its nth call fails, before or after its effect.
type probe struct {
	*world
	r         int
	broken    rule
	made, nth int
	effect    bool
}

func (s *probe) do(effect func()) error {
	s.made++
	fails := s.made == s.nth || s.reps[s.r].cut
	if !fails || s.effect && !s.reps[s.r].cut {
		effect()
	}
	if fails {
		return errors.New("connection reset")
	}
	return nil
}

func (s *probe) TakeDuty(context.Context) (mine bool, err error) {
	err = s.do(func() {
		if mine = s.duty == nobody; mine {
			s.duty = uint8(s.r)
		}
	})
	return mine, err
}

func (s *probe) Leave(context.Context) error { return s.do(func() { s.open, s.duty = true, nobody }) }

func (s *probe) Shut(context.Context) (free bool, err error) {
	err = s.do(func() {
		s.open, free = false, true
		for _, tx := range s.txs {
			held := tx == locked || tx == toldShut || tx == toldOpen && s.broken != readFirst
			free = free && (!held || s.broken == noWaiting)
		}
	})
	return free, err
}

func (s *probe) Open(context.Context) error  { return s.do(func() { s.open = true }) }
func (s *probe) Ping(context.Context) error  { return s.do(func() {}) }
func (s *probe) Close(context.Context) error { return nil }

func (s *probe) Call(context.Context, string) error {
	return s.do(func() {
		if other := 1 - s.r; s.broken != noCall {
			s.with(other, (*Gate).Called)
			s.reps[other].ring = true
		}
	})
}

// late reports whether a committed row waits while a worker is free.
func (w world) late() bool {
	return !(w.reps[0].busy && w.reps[1].busy) && slices.Contains(w.txs[:], committed)
}

// unnoticed reports whether a replica relies on notifications that commits do not send.
func (w world) unnoticed() bool {
	return w.duty < replicas && w.reps[w.duty].asleep && (w.open || slices.Contains(w.txs[:], toldOpen))
}

// explore visits every reachable world. It returns their number, and the first mistake: a world that is unnoticed, or a
// late one that its required steps do not end.
func explore(broken rule, losesOne bool) (worlds int, mistake string) {
	start := world{duty: nobody, lost: !losesOne}
	for r := range start.reps {
		start.reps[r].ring, start.reps[r].connected, start.reps[r].next = true, true, stepsForDuty
	}
	if losesOne {
		start.txs[0] = taken // one row is enough
	}
	seen, all := map[world]int{start: 0}, []world{start}
	before := [][]int{nil} // for each world, those of which it is a required next one
	x := explorer{broken: broken}
	for n := 0; n < len(all); n++ {
		if all[n].unnoticed() {
			return len(all), fmt.Sprintf("unnoticed: %+v", all[n])
		}
		for _, next := range x.from(all[n]) {
			slices.Sort(next.txs[:])
			id, known := seen[next.world]
			if !known {
				id = len(all)
				seen[next.world], all, before = id, append(all, next.world), append(before, nil)
			}
			if next.must {
				before[id] = append(before[id], n)
			}
		}
	}
	ends := make([]bool, len(all)) // whether required steps end it, if it is late
	var queue []int
	for n, w := range all {
		if ends[n] = !w.late(); ends[n] {
			queue = append(queue, n)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, n := range before[queue[0]] {
			if !ends[n] {
				ends[n] = true
				queue = append(queue, n)
			}
		}
	}
	if n := slices.Index(ends, false); n >= 0 {
		mistake = fmt.Sprintf("late for ever: %+v", all[n])
	}
	return len(all), mistake
}

// long explores larger worlds too, which takes minutes with the race detector.
var long = os.Getenv("PGDISPATCH_LONG") != ""

func TestNoInterleavingLosesAWakeUp(t *testing.T) {
	t.Parallel()
	worlds, mistake := explore(noRuleBroken, false)
	require.Empty(t, mistake)
	require.Greater(t, worlds, 50_000)
	if long {
		_, mistake = explore(noRuleBroken, true)
		require.Empty(t, mistake)
	}
}

func TestEveryRuleOfTheGateIsNeeded(t *testing.T) {
	t.Parallel()
	rules := []rule{noWaiting, readFirst}
	if long {
		rules = append(rules, noLookMeanwhile, noHandingOver, noCall)
	}
	for _, broken := range rules {
		_, mistake := explore(broken, false)
		require.NotEmpty(t, mistake, string(broken))
	}
}
