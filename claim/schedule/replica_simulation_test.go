package schedule_test

import (
	"cmp"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim/schedule"
)

// calms ends all faults. It leaves a limit key full.
func (w *world) calms() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changes(func(tx *schedule.SimulatedTx) {
		for n := range w.tables.Workspaces() {
			w.tables.RoomInWorkspace(tx, n)
		}
		w.tables.CalmKeys(tx, schedule.SimulatedKeys[w.full])
		w.tables.Pause(tx, false)
	})
	w.say("all faults end")
	w.calm = true
	w.temporal.away, w.temporal.blocked = false, map[string]bool{}
	clear(w.tables.Refuses)
	clear(w.tables.RefusesEnd)
}

// fills runs until everything has started that can, though nothing ends.
func (w *world) fills() string {
	w.stays = true
	defer func() { w.stays = false }()
	for range 20_000 {
		if w.tables.Startable() == 0 {
			return ""
		}
		if w.step(); w.broken != "" {
			return w.broken
		}
	}
	return fmt.Sprintf("%d items have not started:\n%s", w.tables.Startable(), w.tables.Describe())
}

// drains runs until all items have ended that can.
func (w *world) drains() string {
	most := 20_000
	if w.lies != "" {
		most = 6000
	}
	for steps := 0; w.left() > 0 || w.tables.Full == "" && w.tables.OpenSignals() > 0; steps++ {
		if w.step(); w.broken != "" {
			return w.broken
		}
		if steps > most {
			if w.left() == 0 {
				return fmt.Sprintf("%d signals are open", w.tables.OpenSignals())
			}
			return fmt.Sprintf("%d items have not ended:\n%s", w.left(), w.tables.Describe())
		}
	}
	return w.tables.Signals(w.temporal.received)
}

// opens gives the full limit key room.
func (w *world) opens() string {
	w.commit(func(tx *schedule.SimulatedTx) { w.tables.OpenKey(tx, w.deletes) })
	return ""
}

// works lets all replicas but one stop, and says whether each worker of that one can hold an item, and whether all its
// watches have ended.
func (w *world) works() string {
	if w.quiet && len(w.replicas) > 1 {
		return "" // what a replica leaves that stops is found by polls
	}
	w.mu.Lock()
	one := w.replicas[0]
	for _, r := range w.replicas[1:] {
		r.stop()
	}
	w.replicas = w.replicas[:1]
	w.changes(func(tx *schedule.SimulatedTx) {
		w.tables.LimitWorkspace(tx, 0, perHost, perHost, false)
		w.tables.RateWorkspace(tx, 0, 0)
	})
	w.mu.Unlock()
	busy := 0
	for tries := 0; busy < perHost; tries++ { // its namespace may be paused or throttled at first
		if tries == 40 {
			return fmt.Sprintf("%d of %d workers hold an item", busy, perHost)
		}
		w.fill(perHost)
		w.temporal.holds = true
		for steps := 0; steps < 1000 && busy < perHost; steps++ {
			w.step()
			w.mu.Lock()
			busy = w.handedOver(one)
			w.mu.Unlock()
		}
		w.temporal.holds = false
		if said := w.drains(); said != "" {
			return said
		}
	}
	for range 1000 {
		if w.step(); one.watcher.Watching() == 0 {
			return w.broken
		}
	}
	return fmt.Sprintf("%d executions are watched that have ended", one.watcher.Watching())
}

// commit makes a change between two steps.
func (w *world) commit(change func(tx *schedule.SimulatedTx)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changes(change)
}

// fill enqueues items in the first workspace.
func (w *world) fill(items int) {
	w.commit(func(tx *schedule.SimulatedTx) {
		for range items {
			w.tables.Insert(tx, 0, "", 0, w.now())
		}
	})
}

// stops ends all replicas. It says which do not end.
func (w *world) stops() string {
	w.slow = nil
	for _, r := range w.replicas {
		r.stop()
	}
	ended := make(chan struct{})
	go func() {
		for _, r := range w.all {
			_ = r.parts.Wait()
		}
		close(ended)
	}()
	for range 5000 {
		synctest.Wait()
		select {
		case <-ended:
			return ""
		default:
		}
		w.mu.Lock()
		calls := w.pending()
		if len(calls) > 0 {
			w.goes(calls[0])
		}
		w.mu.Unlock()
		if len(calls) == 0 {
			time.Sleep(100 * time.Millisecond)
		}
	}
	return "replicas do not stop"
}

func (w *world) run() string {
	w.start()
	for range 380 {
		if !w.choices.Next(0) {
			break
		}
		if w.step(); w.broken != "" {
			break
		}
	}
	if w.broken == "" {
		w.calms()
		for _, phase := range []func() string{w.fills, w.drains, w.opens, w.drains, w.hardship, w.drains, w.works} {
			w.part++
			if w.broken = phase(); w.broken != "" {
				break
			}
		}
	}
	said := w.stops()
	w.mu.Lock()
	defer w.mu.Unlock()
	return cmp.Or(w.broken, w.wrong, said)
}

// simulate makes a run in which somebody lies, or nobody.
func simulate(t *testing.T, choices *schedule.Choices, quiet bool, lies string) (w *world, said string) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		w = newWorld(choices, quiet, lies)
		said = w.run()
	})
	return w, said
}

// shortest finds a short run that fails as another did.
func shortest(t *testing.T, choices *schedule.Choices, w *world, said string) (short *world, why string) {
	t.Helper()
	kind := func(said string) string { // without its numbers
		first, _, _ := strings.Cut(said, ":")
		return strings.Trim(first, "0123456789 ")
	}
	short, why = w, said
	schedule.Shrink(choices, func(c *schedule.Choices) bool {
		other, failed := simulate(t, c, w.quiet, w.lies)
		same := kind(failed) == kind(said)
		if same {
			short, why = other, failed
		}
		return same
	})
	return short, why
}

func TestReplicasOverAPostgresAndATemporalThatFailLoseNothing(t *testing.T) {
	t.Parallel()
	first, number := schedule.Seeds(100)
	var mu sync.Mutex
	counts := map[string]int{}
	t.Run("seeds", func(t *testing.T) {
		for shard := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint("shard ", shard), func(t *testing.T) {
				t.Parallel()
				for seed := first + shard; seed < first+number; seed += runtime.GOMAXPROCS(0) {
					w := simulateSeed(t, seed)
					mu.Lock()
					for what, n := range w.counts {
						counts[what] += n
					}
					counts["items"] += w.tables.Rows()
					counts["forgotten items"] += w.tables.ForgottenItems()
					counts["beyond limits"] += w.tables.Beyond
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("%d seeds: %v", number, counts)
	require.Positive(t,
		min(counts["crashes"], counts["kills"], counts["lost"], counts["lock timeouts"], counts["signals"],
			counts["beyond limits"], counts["forgotten items"]))
}

// simulateSeed makes the run of a seed, in which nothing may go wrong.
func simulateSeed(t *testing.T, seed int) *world {
	t.Helper()
	choices := schedule.SeededChoices(uint64(seed))
	w, said := simulate(t, choices, seed%4 == 1, "")
	if said != "" {
		t.Logf("seed %d: %s", seed, said)
		short, why := shortest(t, choices, w, said)
		t.Fatalf("The shortest run that was found, %d steps, %d of them chosen: %s\n%s\n%s", short.steps,
			short.choices.Steps(), why, short.tables.Describe(), short.log.String())
	}
	return w
}

// Each invariant of the simulation sees a violation of it.
func TestTheSimulationSeesWhatIsPlanted(t *testing.T) {
	t.Parallel()
	for lies, sees := range map[string]string{
		"a workspace's limit is not read":         "workspace .* (has|starts)",
		"W is not read":                           "are leased",
		"a key's limit is not read":               "key . in .* has",
		"a key's rate is not read":                "key . in .* starts",
		"a workspace's rate is not read":          "workspace . starts",
		"an unanswered start was not sent":        "holds no slot, and its workflow runs",
		"tokens are not compared":                 "is settled by",
		"leases end early":                        "are handed over at once",
		"ends are not recorded":                   "have not ended",
		"expired leases stay":                     "have not (started|ended)",
		"notifies nobody":                         "have not (started|ended)",
		"signals do not wait for each other":      "receives signal .* after",
		"starts outlive their leases":             "is waited for, though its lease ends",
		"heartbeats renew nothing":                "is given up, though its lease lasts",
		"lost leases are not told":                "the lost lease .* is settled",
		"settles change nothing":                  "is taken for lost, though it lasts",
		"settled starts are not reported":         "does not report it",
		"lanes are not limited":                   "are claimed, where",
		"more is due always":                      "ask for items without a pause",
		"looks never end":                         "looks without a pause",
		"looks tell nothing":                      "count as unannounced",
		"nothing more is due":                     "are repeated and more are not",
		"claims take no turns":                    "two claims are made at once",
		"epochs are not known":                    "knows no epoch",
		"each claim of one key queue is declined": "are declined again and again",
		"unread claims are kept":                  "a lease ends, though nothing fails",
		"open transactions are not told":          "compares while a transaction is open",
		"items are parked twice":                  "parks 2[12] items",
		"unanswered starts come last":             "unanswered start of item .* is not repeated",
		"finds outlive their leases":              "find of item .* outlives its lease",
		"retention is not read":                   "Temporal has forgotten its workflow",
		"revisions stay":                          "is started with an outdated graph",
	} {
		t.Run(lies, func(t *testing.T) {
			t.Parallel()
			quiet := lies == "notifies nobody" || lies == "unread claims are kept"
			for seed := range uint64(300) {
				_, said := simulate(t, schedule.SeededChoices(seed), quiet, lies)
				if said == "" {
					continue
				}
				require.Regexp(t, sees, said)
				return
			}
			t.Fatal("nobody sees it")
		})
	}
}

func TestAFailingRunIsShortened(t *testing.T) {
	t.Parallel()
	for lies, sees := range map[string]string{
		"a workspace's limit is not read": "workspace .* (has|starts)",
		"notifies nobody":                 "have not (started|ended)",
	} {
		t.Run(lies, func(t *testing.T) {
			t.Parallel()
			least, quiet := 1000, lies == "notifies nobody"
			for seed := uint64(0); seed < 50 && least >= 40; seed++ {
				choices := schedule.SeededChoices(seed)
				if w, said := simulate(t, choices, quiet, lies); said != "" {
					short, why := shortest(t, choices, w, said)
					require.Regexp(t, sees, why)
					if least = min(least, short.steps); quiet { // it waits for ever after the steps that were chosen
						least = short.choices.Steps()
					}
				}
			}
			require.Less(t, least, 40)
		})
	}
}
