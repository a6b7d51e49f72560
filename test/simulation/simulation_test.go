package simulation

import (
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// each makes the runs of scenarios, as many at once as there are processors, and passes the results to a function, one
// at a time and in any order. It makes no more runs once that returns false.
func each(t *testing.T, scenarios []scenario, use func(scenario, result) (more bool)) {
	t.Helper()
	var mu sync.Mutex
	next, ends := 0, false
	t.Run("runs", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for {
					mu.Lock()
					at := next
					next++
					done := ends || at >= len(scenarios)
					mu.Unlock()
					if done {
						return
					}

					r := runs.make(t, scenarios[at])
					mu.Lock()
					ends = ends || !use(scenarios[at], r)
					mu.Unlock()
				}
			})
		}
	})
}

// seedsFrom are the scenarios of so many seeds.
func seedsFrom(first, number int) (list []scenario) {
	for seed := first; seed < first+number; seed++ {
		list = append(list, ofSeed(seed))
	}
	return list
}

func TestReplicas_LoseNothingWhateverFails(t *testing.T) {
	t.Parallel()
	first, number := seeds(100)
	lasting := os.Getenv("PGDISPATCH_LASTING")
	if lasting != "" {
		require.Contains(t, slices.Collect(maps.Keys(lastingFaults)), lasting, "PGDISPATCH_LASTING names no fault")
	}
	scenarios := seedsFrom(first, number)
	for n := range scenarios {
		scenarios[n].Lasting = lasting
	}

	var all digest
	counts := map[string]int{}
	each(t, scenarios, func(s scenario, r result) bool {
		if r.Said != "" {
			reportShortest(t, s, r)
			return false
		}
		all = all.with(r.Digest)
		for what, n := range r.Counts {
			counts[what] += n
		}
		return true
	})
	if t.Failed() {
		return
	}

	t.Logf("%d seeds from %d on, digest %s: %v", number, first, all, counts)
	for _, what := range []string{"crashes", "kills", "lost", "lock timeouts", "signals", "beyond limits",
		"forgotten items"} {
		require.True(t, counts[what] > 0 || lasting != "" || number < 100, "%d seeds have no %s", number, what)
	}
}

// reportShortest fails the test with the shortest run found that fails as another did, and says how to repeat that one.
func reportShortest(t *testing.T, s scenario, r result) {
	t.Helper()
	t.Errorf("seed %d: %s\nRun it again: %s", s.Seed, r.Said, s.command())
	if runs.program == "" {
		t.Logf("Seeds cannot be repeated here, because %s: the run may not fail again.", runs.why)
	}
	if r.Made == nil || s.Lasting != "" { // the choices of a lasting fault only let time pass
		t.Logf("%s\n%s", r.Items, r.Log)
		return
	}
	short := shortest(t, s, r)
	t.Logf("The shortest run that was found, %d steps, %d of them chosen: %s\n%s\n%s", short.Steps, short.Chosen,
		short.Said, short.Items, short.Log)
}

// shortest finds a short run that fails as another did.
func shortest(t *testing.T, s scenario, r result) (short result) {
	t.Helper()
	short = r
	shrink(r.Made, func(steps []step) ([]step, bool) {
		s.Steps = steps
		other := runs.make(t, s)
		if other.reason() != r.reason() {
			return nil, false
		}
		short = other
		return other.Made, true
	})
	return short
}

// digits are the numbers of what a run says.
var digits = regexp.MustCompile(`\d+(\.\d+)?`)

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// plantedMistakes are what replicas or their surroundings can be made to do wrong, and what the simulation then says.
var plantedMistakes = map[string]string{
	"a workspace's limit is not read":     "workspace .* (has|starts)",
	"W is not read":                       "are leased",
	"a key's limit is not read":           "key . in .* has",
	"a key's rate is not read":            "key . in .* starts",
	"a workspace's rate is not read":      "workspace . starts",
	"an unanswered start was not sent":    "holds no slot, and its workflow runs",
	"tokens are not compared":             "is settled by",
	"leases end early":                    "are handed over at once",
	"ends are not recorded":               "have not ended",
	"expired leases stay":                 "have not (started|ended)",
	"notifies nobody":                     "have not (started|ended)",
	"signals do not wait for each other":  "receives signal .* after",
	"starts outlive their leases":         "is waited for, though its lease ends",
	"heartbeats renew nothing":            "is given up, though its lease lasts",
	"lost leases are not told":            "the lost lease .* is settled",
	"settles change nothing":              "is taken for lost, though it lasts",
	"settled starts are not reported":     "does not report it",
	"lanes are not limited":               "are claimed, where",
	"more is due always":                  "ask for items without a pause",
	"looks never end":                     "looks without a pause",
	"looks tell nothing":                  "count as unannounced",
	"nothing more is due":                 "are repeated and more are not",
	"claims take no turns":                "two claims are made at once",
	"epochs are not known":                "knows no epoch",
	"each plain claim is declined":        "are declined again and again",
	"unread claims are kept":              "a lease ends, though nothing fails",
	"open transactions are not told":      "compares while a transaction is open",
	"items are parked twice":              "parks 2[12] items",
	"unanswered starts come last":         "unanswered start of item .* is not repeated",
	"finds outlive their leases":          "find of item .* outlives its lease",
	"retention is not read":               "Temporal has forgotten its workflow",
	"one answer of not found is believed": "holds no slot, and its workflow runs",
	"revisions stay":                      "is started with an outdated graph",
	"all workers may repeat starts":       "workers repeat starts",
}

// ofMistake are scenarios in which a mistake is planted. Some mistakes only show where nothing is polled, and one
// hardly ever where Temporal seldom finds nothing.
func ofMistake(lies string, number int) (list []scenario) {
	mistake := scenario{Lies: lies, Quiet: lies == "notifies nobody" || lies == "unread claims are kept"}
	if lies == "one answer of not found is believed" {
		mistake.Lasting = "runs are not found for three seconds"
	}
	for seed := range number {
		mistake.Seed = uint64(seed)
		list = append(list, mistake)
	}
	return list
}

func TestSimulation_DetectsEachPlantedMistake(t *testing.T) {
	const mostSeeds = 1000 // the rarest mistakes show once in some hundred seeds
	t.Parallel()
	for lies, says := range plantedMistakes {
		t.Run(lies, func(t *testing.T) {
			t.Parallel()
			for _, s := range ofMistake(lies, mostSeeds) {
				if r := runs.make(t, s); r.Said != "" {
					require.Regexp(t, says, r.Said)
					return
				}
			}
			t.Fatalf("%d seeds do not detect it", mostSeeds)
		})
	}
}

func TestShrink_LeavesFewerThanFortyChosenSteps(t *testing.T) {
	t.Parallel()
	for _, lies := range []string{"a workspace's limit is not read", "W is not read", "a key's rate is not read",
		"notifies nobody", "claims take no turns", "an unanswered start was not sent", "expired leases stay"} {
		t.Run(lies, func(t *testing.T) {
			t.Parallel()
			var found []int
			for _, s := range ofMistake(lies, 50) {
				r := runs.make(t, s)
				if r.Said == "" {
					continue
				}
				short := shortest(t, s, r)
				require.Regexp(t, plantedMistakes[lies], short.Said)
				if found = append(found, short.Chosen); short.Chosen < 40 {
					return
				}
			}
			t.Fatalf("the shortest runs have %v chosen steps", found)
		})
	}
}

func TestScenario_NamesTheCommandThatRepeatsIt(t *testing.T) {
	t.Parallel()
	require.Equal(t, "make simulation FIRST=1015 SEEDS=1", ofSeed(1015).command())
	require.Equal(t, "make simulation FIRST=3 SEEDS=1 LASTING='nothing fails'",
		scenario{Seed: 3, Lasting: "nothing fails"}.command())
	require.Contains(t, lastingFaults, "nothing fails")
}
