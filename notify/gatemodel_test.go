package notify

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// This explores every interleaving of two replicas with one worker each and three transactions that insert a row, to show
// that no wake-up is lost without any poll: whenever nothing more must happen by itself, no committed row waits while a
// worker is free. Transactions may stay open and workers busy for ever, so neither is something that must happen.

const (
	replicas     = 2
	transactions = 3
)

// What a transaction is up to.
const (
	unborn    = iota
	toldOpen  // it inserted, and holds the gate's lock shared
	toldShut  // it inserted, and will notify at its commit
	committed // its row can be claimed
	taken     // its row has been claimed
)

// What a replica is up to.
const (
	looking  = iota // will claim next
	dry             // has claimed, found nothing, and will sleep
	waiting         // for the gate's lock, exclusively
	shutting        // has just got it, and will claim once more
	asleep
	busy // its worker is
)

const nobody = 255

type world struct {
	txs   [transactions]uint8
	reps  [replicas]uint8
	gate  uint8 // who holds its lock exclusively
	duty  uint8
	rings [replicas]bool // a notification has arrived
	calls [replicas]bool // a call has
}

// rule is something that the gate relies on; each can be left out, to see what goes wrong.
type rule string

const (
	complete        rule = "nothing is left out"
	noSecondLook    rule = "the gate is shut without another look"
	noWaiting       rule = "the gate is shut while somebody is in flight who was told that it is open"
	noLookMeanwhile rule = "the replica that waits for the gate does not look meanwhile"
	noHandingOver   rule = "a busy replica keeps duty"
	noCall          rule = "duty is left without a call"
	sleepOffDuty    rule = "a replica sleeps though nobody is on duty"
)

type step struct {
	world
	must bool // it happens sooner or later, whatever anybody else does
}

func (w world) steps(broken rule) []step {
	var next []step
	for i := range w.txs {
		next = append(next, w.transact(i)...)
	}
	for r := range w.reps {
		next = append(next, w.act(uint8(r), broken)...)
	}
	return next
}

func (w world) transact(i int) []step {
	switch w.txs[i] {
	case unborn:
		w.txs[i] = toldOpen
		if w.gate != nobody || w.anybody(waiting) {
			w.txs[i] = toldShut
		}
	case toldOpen, toldShut:
		if w.txs[i] == toldShut {
			w.rings = [replicas]bool{true, true}
		}
		w.txs[i] = committed
	default:
		return nil
	}
	return []step{{w, false}}
}

func (w world) anybody(state uint8) bool {
	for _, s := range w.reps {
		if s == state {
			return true
		}
	}
	return false
}

func (w world) act(r uint8, broken rule) []step {
	switch w.reps[r] {
	case looking, shutting:
		return w.claim(r)
	case dry:
		return []step{{w.lieDown(r, broken), true}}
	case waiting:
		return w.wait(r, broken)
	case asleep:
		return w.hear(r)
	case busy:
		return w.work(r, broken)
	}
	return nil
}

// wait gets the gate's lock when nobody is in flight who was told that it is open, and looks at the table meanwhile.
func (w world) wait(r uint8, broken rule) []step {
	inFlight, row := false, false
	for _, tx := range w.txs {
		inFlight = inFlight || tx == toldOpen
		row = row || tx == committed
	}
	if inFlight && broken != noWaiting {
		if row && broken != noLookMeanwhile {
			return w.claim(r)
		}
		return nil
	}
	w.gate = r
	w.reps[r] = shutting
	if broken == noSecondLook {
		w.reps[r] = asleep
	}
	return []step{{w, true}}
}

// claim takes one row, or finds none. With the gate shut, a replica that finds something may open it or not.
func (w world) claim(r uint8) []step {
	for i, tx := range w.txs {
		if tx != committed {
			continue
		}
		w.txs[i] = taken
		w.reps[r] = busy
		kept := step{w, true}
		if w.gate != r {
			return []step{kept}
		}
		w.gate = nobody
		return []step{kept, {w, true}}
	}
	if w.gate == r {
		w.reps[r] = asleep
	} else {
		w.reps[r] = dry
	}
	return []step{{w, true}}
}

// lieDown takes duty and asks for the gate, or sleeps because another is on duty.
func (w world) lieDown(r uint8, broken rule) world {
	switch {
	case broken == sleepOffDuty && w.duty != r:
		w.reps[r] = asleep
	case w.duty == nobody || w.duty == r:
		w.duty = r
		w.reps[r] = waiting
	default:
		w.reps[r] = asleep
	}
	return w
}

// hear wakes for a notification when on duty, and for a call.
func (w world) hear(r uint8) []step {
	if !w.rings[r] && !w.calls[r] {
		return nil
	}
	if w.calls[r] || w.duty == r {
		w.reps[r] = looking
	}
	w.rings[r], w.calls[r] = false, false
	return []step{{w, true}}
}

// work ends some time, perhaps never; what must happen is that duty is left.
func (w world) work(r uint8, broken rule) []step {
	freed := w
	freed.reps[r] = looking
	next := []step{{freed, false}}
	if w.duty == r && broken != noHandingOver {
		w.duty = nobody
		if w.gate == r {
			w.gate = nobody
		}
		for other := range w.calls {
			w.calls[other] = w.calls[other] || (uint8(other) != r && broken != noCall)
		}
		next = append(next, step{w, true})
	}
	return next
}

// lost says that a committed row waits while a worker is free.
func (w world) lost() bool {
	row, free := false, false
	for _, tx := range w.txs {
		row = row || tx == committed
	}
	for _, s := range w.reps {
		free = free || s != busy
	}
	return row && free
}

// explore visits every world that can be reached. It returns how many there are, and one in which a wake-up is lost.
func explore(broken rule) (worlds int, found *world) {
	start := world{gate: nobody, duty: nobody}
	seen := map[world]bool{start: true}
	for queue := []world{start}; len(queue) > 0; {
		w := queue[0]
		queue = queue[1:]
		still := true
		for _, next := range w.steps(broken) {
			still = still && !next.must
			if !seen[next.world] {
				seen[next.world] = true
				queue = append(queue, next.world)
			}
		}
		if still && w.lost() {
			return len(seen), &w
		}
	}
	return len(seen), nil
}

func TestNoInterleavingLosesAWakeUp(t *testing.T) {
	t.Parallel()
	worlds, found := explore(complete)
	require.Nil(t, found)
	require.Greater(t, worlds, 1000)
	t.Logf("%d worlds", worlds)
}

func TestEveryRuleOfTheGateIsNeeded(t *testing.T) {
	t.Parallel()
	for _, broken := range []rule{noSecondLook, noWaiting, noLookMeanwhile, noHandingOver, noCall, sleepOffDuty} {
		_, found := explore(broken)
		require.NotNil(t, found, string(broken))
	}
}
