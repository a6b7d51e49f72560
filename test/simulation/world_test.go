package simulation

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgdispatch/pgdispatch/test/simulation/simpg"
)

const (
	lease      = 10 * time.Second
	perHost    = 3      // workers of a replica
	loadQueues = 10_000 // key queues that a replica reads at once while it knows nothing
)

var errCut = errors.New("the connection was cut")

// world is one run: replicas of the product's own code over a simulated Postgres and a simulated Temporal, in a bubble
// of synctest. One source of choices decides the order of everything that leaves a replica: when a statement runs, when
// it commits, when its answer arrives or is lost, and how much time passes before.
type world struct {
	*rand.Rand // the choices
	choices    *chooser
	lies       string        // the planted mistake; empty if there is none
	lasting    *lastingFault // nil: everything may fail
	steps      int
	part       int // 0 while there are faults
	tables     *simpg.Postgres
	temporal   temporalModel
	replicas   []*replica
	all        []*replica           // with those that were killed
	calm       bool                 // no more faults
	cutsLoad   bool                 // the second page of a load gets no answer
	stays      bool                 // no workflow ends
	quiet      bool                 // nothing is polled or lost, so that wake-ups and timers must suffice
	skew       time.Duration        // of Postgres' clock
	shut       bool                 // the gate: commits of work notify
	duty       *gateSession         // the session on duty
	told       map[*simpg.Tx]*wakes // what open transactions will notify of
	refusal    error                // of the statement that has just run
	broken     string               // what is wrong; empty if nothing is. Only the steps write and read it.
	wrong      string               // what a replica did wrong since the last step; guarded by mu
	counts     map[string]int       // how often each fault came
	log        bytes.Buffer
	history    bytes.Buffer   // everything that happened, for the digest
	verbose    bool           // logs each answer
	slow       []string       // what calls are about that take long
	atOnce     int            // claims since the last step
	passedOver map[int64]bool // items whose rows were found locked, or whose settle was rejected
	kept       *simpg.Tx      // an application's transaction that stays open
	keptAt     time.Time
	kind       int  // of the hardship that comes last
	keeps      bool // a transaction open meanwhile
	full       int  // the limit key that stays full after the faults
	deletes    bool // the limit of that key, to give it room

	mu    sync.Mutex // held by whoever changes the world
	calls []*call
	came  int
}

// wakes are the notifications of a transaction.
type wakes struct {
	open     bool // it has read the gate as open
	payloads []string
}

func newWorld(choices *chooser, s scenario) *world {
	w := &world{Rand: rand.New(choices), choices: choices, lies: s.Lies, quiet: s.Quiet, told: map[*simpg.Tx]*wakes{},
		counts: map[string]int{}, passedOver: map[int64]bool{}}
	if s.Lasting != "" {
		if w.lasting = lastingFaults[s.Lasting]; w.lasting == nil {
			panic("no lasting fault is named " + s.Lasting)
		}
	}

	for _, name := range []string{"heartbeat", "claim", "start", "find", "dispatched"} {
		if !w.quiet && w.IntN(8) == 7 {
			w.slow = append(w.slow, name)
		}
	}
	var limits, bursts []int
	for range 1 + w.IntN(3) {
		limits, bursts = append(limits, 1+w.IntN(3)), append(bursts, w.IntN(6))
	}
	w.tables = simpg.New(w.Rand, limits, bursts)
	w.tables.SetAlive(w.alive)
	w.tables.Lies = w.lies
	w.temporal = temporalModel{world: w, runs: map[int64]*run{}, blocked: map[string]bool{}}
	w.tables.SetNow(w.now())
	for range w.IntN(3) {
		w.limitsKey(1)
	}
	w.kind, w.keeps, w.full, w.deletes = w.IntN(80), w.IntN(2) > 0, w.IntN(3), w.IntN(2) > 0
	return w
}

func (w *world) start() {
	for range 1 + w.IntN(3) {
		w.join()
	}
}

// now is Postgres' clock.
func (w *world) now() time.Time { return time.Now().Add(w.skew) }

func (w *world) say(format string, args ...any) {
	from := w.log.Len()
	fmt.Fprintf(&w.log, "%8d ", time.Since(began).Milliseconds())
	fmt.Fprintf(&w.log, format+"\n", args...)
	w.history.Write(w.log.Bytes()[from:])
}

// records notes something for the digest only.
func (w *world) records(what string, numbers ...int) {
	w.history.WriteString(what)
	for _, n := range numbers {
		w.history.Write(binary.AppendVarint(w.history.AvailableBuffer(), int64(n)))
	}
	w.history.Write(binary.AppendVarint(w.history.AvailableBuffer(), int64(time.Since(began))))
}

// began is when every bubble's clock begins.
var began = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// alive reports whether a replica renews its presence.
func (w *world) alive(n int) bool {
	return slices.ContainsFunc(w.replicas, func(r *replica) bool { return r.n == n })
}

// rare returns true once in so many times while there are faults.
func (w *world) rare(times int) bool { return !w.calm && !w.quiet && w.IntN(times) == times-1 }

func (w *world) count(what string) { w.counts[what]++ }

// step does one thing, after all replicas have come to rest.
func (w *world) step() {
	synctest.Wait()
	w.mu.Lock()
	if w.steps++; w.calm {
		w.choices.Next(w.part)
	}
	w.atOnce = 0
	w.records("step", w.steps, len(w.calls))
	w.broken = cmp.Or(w.broken, w.wrong, w.beyondLeases())
	passes := w.does()
	w.mu.Unlock()
	time.Sleep(passes)
}

// does does one thing, or returns how much time is to pass. Choice 0 lets a call go on: a run without its last choices
// is a calm one.
func (w *world) does() (passes time.Duration) {
	w.tables.SetNow(w.now())
	calls := w.pending()
	for _, c := range calls { // a request to Temporal does not outlive its lease
		if c.gone && c.temporal() {
			w.goes(c)
			return 0
		}
	}
	switch n := w.IntN(32); {
	case n < 14 && len(calls) > 0:
		w.goes(calls[w.IntN(len(calls))])
	case n < 16:
		w.delivers()
	case n < 18 && !w.calm:
		w.enqueues()
	case n == 18 && !w.calm && w.tables.Rows() > 0:
		w.signals()
	case n < 20 && len(w.applications()) > 0:
		open := w.applications()
		w.commits(open[w.IntN(len(open))], true)
	case n < 23 && !w.stays && (w.calm || w.IntN(4) == 0):
		w.temporal.ends()
	case n == 23 && !w.calm && w.IntN(4) > 1:
		if w.quiet || w.IntN(3) > 0 {
			w.alters()
		} else {
			w.fault()
		}
	case n == 24 && len(w.locks()) > 0 && w.rare(2):
		w.timesOut(w.locks()[0])
	case n == 25 && w.IntN(4) == 3 && w.skew > -time.Hour: // a gap would make replicas forget what they wait for
		w.tables.Trim()
	case n < 28 || len(calls) == 0:
		passes = w.passes()
	default:
		w.goes(calls[w.IntN(len(calls))])
	}
	w.broken = cmp.Or(w.broken, w.tables.Broken(), w.temporal.broken(), w.beyondW())
	return passes
}

// beyondW says that more items are handed over at once than W allows. A crash may forget that a lease was extended.
func (w *world) beyondW() string {
	if w.counts["crashes"]+w.counts["failovers"]+w.counts["clock jumps"] > 0 {
		return ""
	}
	if n := w.handedOver(nil); n > simpg.W {
		return fmt.Sprintf("%d items are handed over at once", n)
	}
	return ""
}

// handedOver counts the starts that a replica waits for, or, if it is nil, all replicas.
func (w *world) handedOver(by *replica) (starts int) {
	for _, c := range w.calls {
		if c.name == "start" && !c.gone && (by == nil || c.of == by) {
			starts++
		}
	}
	return starts
}

// passes returns how much time is to pass.
func (w *world) passes() time.Duration {
	d := []time.Duration{time.Millisecond, 20 * time.Millisecond, 200 * time.Millisecond, time.Second}[w.IntN(4)]
	timely := w.quiet || w.lasting != nil
	if w.temporal.holds || timely && slices.ContainsFunc(w.pending(), func(c *call) bool { return c.name != "wait" }) {
		d = time.Millisecond // a call that times out is a fault
	}
	if w.rare(30) {
		d = []time.Duration{lease + time.Second, lease - time.Second/2, lease / 2}[w.IntN(3)] // everything hangs
	}
	return d
}

// timesOut ends the wait of a call for a lock.
func (w *world) timesOut(c *call) {
	w.count("lock timeouts")
	w.say("%s: %s waits too long for a lock", c.of.name, c.name)
	w.answers(c, lockTimeout)
}

var lockTimeout = &pgconn.PgError{Code: "55P03", Message: "canceling statement due to lock timeout"}

// applications are the open transactions of applications.
func (w *world) applications() (open []*simpg.Tx) {
	for _, tx := range w.tables.Open() {
		if tx != w.kept && !slices.ContainsFunc(w.calls, func(c *call) bool { return c.tx == tx }) {
			open = append(open, tx)
		}
	}
	return open
}

func (w *world) enqueues() {
	if w.rare(300) {
		w.say("no trigger sees that item %d is enqueued", w.tables.InsertUnseen(w.IntN(w.tables.Workspaces())))
		return
	}
	tx := w.tables.Begin(w.IntN(4) != 0)
	if w.IntN(16) == 15 {
		w.say("an application locks item %d", w.tables.LockWaiting(tx))
		return
	}
	workspace, priority := w.IntN(w.tables.Workspaces()), w.IntN(3)
	for range 1 + w.IntN(3) {
		key := ""
		if n := w.IntN(8); n > 4 {
			key = simpg.Keys[n-5]
		}
		due := w.now().Add(time.Duration(w.IntN(8000)-6000) * time.Millisecond)
		w.say("item %d is enqueued in %d at %d with key %q", w.tables.Insert(tx, workspace, key, priority, due), workspace,
			priority, key)
	}
	w.notes(tx)
}

// signals sends a signal to an item.
func (w *world) signals() {
	if id, item := w.tables.SendSignal(); id != 0 {
		w.say("signal %d is sent to %d", id, item)
		for _, r := range w.replicas {
			if !r.deaf {
				r.notes = append(r.notes, ofSignals)
			}
		}
	}
}

// notes decides, when a statement has run, what its transaction will notify of.
func (w *world) notes(tx *simpg.Tx) {
	told := &wakes{open: !w.shut}
	if w.shut && w.lies != "notifies nobody" {
		told.payloads = w.tables.Payloads(tx)
	}
	w.told[tx] = told
}

// changes makes a change by a commit that no crash undoes.
func (w *world) changes(change func(tx *simpg.Tx)) {
	tx := w.tables.Begin(true)
	change(tx)
	w.notes(tx)
	w.commits(tx, true)
}

// commits ends a transaction and notifies the replicas that listen.
func (w *world) commits(tx *simpg.Tx, commits bool) {
	w.tables.Close(tx, commits)
	told := w.told[tx]
	if delete(w.told, tx); told == nil || !commits {
		return
	}
	for _, r := range w.replicas {
		if !r.deaf {
			r.notes = append(r.notes, told.payloads...)
		}
	}
}

// delivers gives a replica its next notification.
func (w *world) delivers() {
	for _, r := range w.replicas {
		if len(r.notes) > 0 && w.IntN(2) == 0 {
			note := r.notes[0]
			w.say("%s is notified: %q", r.name, note)
			r.notes = r.notes[1:]
			r.notified(note)
			return
		}
	}
}

func (c *call) temporal() bool {
	return slices.Contains([]string{"start", "find", "wait", "signal"}, c.name)
}
