package notify

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// This explores every interleaving of two replicas with one worker each and three transactions that insert a row, to
// show that no wake-up is lost without any poll: in every state without a required step, no committed row waits while a
// worker is free. Transactions may stay open and workers busy forever, so their next steps are not required.

const (
	replicas     = 2
	transactions = 3
)

// States of a transaction.
const (
	unborn    = iota
	locked    // has inserted, holds the gate's lock shared, and will read the gate
	toldAwake // read that no notification is needed, and holds the lock
	toldShut  // read that it must notify at commit, and holds the lock
	committed // its row can be claimed
	taken     // its row has been claimed
)

// States of a replica.
const (
	looking = iota // will claim next
	dry            // has claimed, found nothing, and will sleep
	waiting        // has shut the gate, and retries the lock until it is free
	settled        // found the lock free, and will claim once more
	asleep
	busy // its worker is busy
)

const nobody = 255

type world struct {
	txs   [transactions]uint8
	reps  [replicas]uint8
	awake bool           // the gate's value
	duty  uint8          // the replica on duty
	rings [replicas]bool // a notification has arrived
	calls [replicas]bool // a call has arrived
}

// rule is an assumption of the gate; tests disable each to see what fails.
type rule string

const (
	complete        rule = "every rule applies"
	noSecondLook    rule = "the gate is shut without another claim"
	noWaiting       rule = "a replica sleeps while a transaction is open that read it as awake"
	noLookMeanwhile rule = "a replica that waits for the lock does not look meanwhile"
	readFirst       rule = "the gate is read before its lock is taken"
	noHandingOver   rule = "a busy replica keeps duty"
	noCall          rule = "duty is left without a call"
	sleepOffDuty    rule = "a replica sleeps while no replica is on duty"
	openLate        rule = "a replica opens the gate after it left duty"
)

type step struct {
	world
	must bool // required: it happens eventually, whatever the others do
}

func (w world) steps(broken rule) []step {
	var next []step
	for i := range w.txs {
		next = append(next, w.transact(i, broken)...)
	}
	for r := range w.reps {
		next = append(next, w.act(uint8(r), broken)...)
	}
	return next
}

// transact continues a transaction. It may stay open forever.
func (w world) transact(i int, broken rule) []step {
	told := uint8(toldShut)
	if w.awake {
		told = toldAwake
	}
	switch w.txs[i] {
	case unborn:
		w.txs[i] = locked
		if broken == readFirst {
			w.txs[i] = told // and has no lock yet
		}
	case locked:
		w.txs[i] = told
	case toldShut:
		w.rings = [replicas]bool{true, true}
		w.txs[i] = committed
	case toldAwake:
		w.txs[i] = committed
	default:
		return nil
	}
	return []step{{w, false}}
}

func (w world) act(r uint8, broken rule) []step {
	switch w.reps[r] {
	case looking, settled:
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

// wait finds the gate's lock free once no transaction holds it that read the replica as awake, and meanwhile looks at
// the table. Transactions that will notify hold the lock too, and may end first.
func (w world) wait(r uint8, broken rule) []step {
	held, row := false, false
	for _, tx := range w.txs {
		held = held || tx == toldAwake && broken != readFirst || tx == locked || tx == toldShut
		row = row || tx == committed
	}
	if held && broken != noWaiting {
		if row && broken != noLookMeanwhile {
			return w.claim(r)
		}
		if w.rings[r] {
			w.rings[r] = false
			return w.claim(r)
		}
		return nil
	}
	w.reps[r] = settled
	if broken == noSecondLook {
		w.reps[r] = asleep
	}
	return []step{{w, true}}
}

// claim takes one row, or finds none. A replica on duty that finds one may open the gate or not.
func (w world) claim(r uint8) []step {
	for i, tx := range w.txs {
		if tx != committed {
			continue
		}
		w.txs[i] = taken
		w.reps[r] = busy
		kept := step{w, true}
		if w.duty != r {
			return []step{kept}
		}
		w.awake = true
		return []step{kept, {w, true}}
	}
	switch w.reps[r] {
	case settled:
		w.reps[r] = asleep
	case waiting: // keeps waiting
	default:
		w.reps[r] = dry
	}
	return []step{{w, true}}
}

// lieDown takes duty and shuts the gate, or sleeps because another replica is on duty.
func (w world) lieDown(r uint8, broken rule) world {
	switch {
	case broken == sleepOffDuty && w.duty != r:
		w.reps[r] = asleep
	case w.duty == nobody || w.duty == r:
		w.duty = r
		w.awake = false
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

// work ends at some time, perhaps never; only leaving duty is required.
func (w world) work(r uint8, broken rule) []step {
	freed := w
	freed.reps[r] = looking
	next := []step{{freed, false}}
	if broken == openLate && w.duty != r {
		late := w
		late.awake = true
		next = append(next, step{late, false})
	}
	if w.duty == r && broken != noHandingOver {
		w.duty, w.awake = nobody, true
		for other := range w.calls {
			w.calls[other] = w.calls[other] || (uint8(other) != r && broken != noCall)
		}
		next = append(next, step{w, true})
	}
	return next
}

// lost reports whether a committed row waits while a worker is free.
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

// explore visits every reachable world. It returns their number, and one in which a wake-up is lost.
func explore(broken rule) (worlds int, found *world) {
	start := world{duty: nobody}
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
	for _, broken := range []rule{noSecondLook, noWaiting, noLookMeanwhile, readFirst, noHandingOver, noCall, sleepOffDuty,
		openLate} {
		_, found := explore(broken)
		require.NotNil(t, found, string(broken))
	}
}
