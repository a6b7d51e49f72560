package doctor

import (
	"context"
	"fmt"
	"math"
	"strings"
	"unicode"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/pgdispatch/pgdispatch/internal/spelling"
)

// unlimitedKeys is how many keys without a limit are compared with those of limits.
const unlimitedKeys = 500

// limitProblem is a kind of problem of limits of keys.
type limitProblem int

// The kinds, in the order in which they are reported.
const (
	misspelt limitProblem = iota
	overfull
	neverBinds
	limitsNothing
	limitProblems
)

// limitAdvice says what the kinds mean, and the remedies.
var limitAdvice = [limitProblems]struct{ meaning, remedy string }{
	misspelt: {"A limit may have a misspelt key: its items start without a limit.",
		"Set the limit of the key that items have, and remove the other: `pgdispatch limits set` and `remove`."},
	overfull: {"A limit was lowered below what runs: no more items of its key start until enough have ended.",
		"Wait, or end some: `pgdispatch executions cancel`."},
	neverBinds: {"Part of a limit never applies, because another limit is always reached first.",
		"Correct it, or remove that part: `pgdispatch limits set KEY --rates`, or `--max off`."},
	limitsNothing: {"A limit has neither a maximum nor a rate.", "Set one, or remove the limit: `pgdispatch limits`."},
}

// checkLimits judges the limits of keys.
func checkLimits(ctx context.Context, store *operate.Store) Finding {
	return checkList(ctx, "limits", store.LimitFacts, func(limits []operate.LimitFacts) Finding {
		if len(limits) == 0 {
			return ok("limits", "none are set")
		}
		keys := func(ctx context.Context) ([]operate.LimitKey, error) { return store.UnlimitedKeys(ctx, unlimitedKeys) }
		return checkList(ctx, "limits", keys, func(unlimited []operate.LimitKey) Finding {
			return judgeLimits(limits, unlimited)
		})
	})
}

// judgeLimits finds what is wrong with limits, given keys of items that have no limit.
func judgeLimits(limits []operate.LimitFacts, unlimited []operate.LimitKey) Finding {
	var found [limitProblems][]string
	for _, l := range limits {
		add := func(kind limitProblem, format string, args ...any) {
			found[kind] = append(found[kind], view.KeyLimitName(l.KeyLimit)+" "+fmt.Sprintf(format, args...))
		}
		if meant := keyMeant(l, unlimited); meant != "" {
			add(misspelt, "has no items, but some have the key %s, which has no limit", view.Printable(meant))
		}
		if l.MaxConcurrent != nil && l.Active > int64(*l.MaxConcurrent) {
			add(overfull, "holds more than its maximum of %d", *l.MaxConcurrent)
		}
		if l.MaxConcurrent != nil && l.WorkspaceMax != nil && *l.MaxConcurrent > *l.WorkspaceMax {
			add(neverBinds, "has a maximum of %d, but its workspace runs at most %d", *l.MaxConcurrent, *l.WorkspaceMax)
		}
		for _, rate := range l.Rates {
			if by := reachedFirst(rate, l.Rates); by != nil {
				add(neverBinds, "has the rate %s, but never reaches it because of %s", rate, by)
			}
		}
		if l.MaxConcurrent == nil && len(l.Rates) == 0 {
			add(limitsNothing, "limits nothing")
		}
	}
	var list, meanings, remedies []string
	for kind, these := range found {
		if len(these) > 0 {
			list, meanings = append(list, these...), append(meanings, limitAdvice[kind].meaning)
			remedies = append(remedies, limitAdvice[kind].remedy)
		}
	}
	if len(list) == 0 {
		return ok("limits", "nothing is wrong with %d", len(limits))
	}
	return Finding{"limits", Warning, shortList(list), strings.Join(meanings, " "), strings.Join(remedies, " ")}
}

// keyMeant returns the key that a limit was probably meant for: items have it, it has no limit, and no item has the
// limit's own key. It is empty if there is none. Keys that differ by a number only are no misspellings.
func keyMeant(l operate.LimitFacts, unlimited []operate.LimitKey) string {
	if l.Active > 0 || l.Waits {
		return ""
	}
	keys := []string{}
	for _, k := range unlimited {
		if (l.WorkspaceID == "" || l.WorkspaceID == k.WorkspaceID) && withoutDigits(k.Key) != withoutDigits(l.Key) {
			keys = append(keys, k.Key)
		}
	}
	return spelling.Nearest(l.Key, keys)
}

func withoutDigits(key string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, key)
}

// longer is how much longer than its period a start may count: see functions/claim_key_debit.sql.
const longer = 1.05

// reachedFirst returns the rate that keeps another from ever being reached, or nil.
func reachedFirst(rate operate.Rate, all operate.Rates) *operate.Rate {
	for _, other := range all {
		// So many periods of other cover one of rate.
		periods := int64(math.Ceil(longer * float64(rate.Per) / float64(other.Per)))
		if other != rate && int64(rate.Starts) >= periods*int64(other.Starts) {
			return &other
		}
	}
	return nil
}

// checkSignals judges the signals of the only depth.
// checkStarts judges whether starts of single items keep failing while others of their namespaces start.
func checkStarts(depths []operate.Depth) Finding {
	const check = "starts"
	d := depths[0]
	if d.FailingAlone > 0 {
		return Finding{check, Warning, fmt.Sprintf("starts of %s keep failing while others start. Item %s",
			view.Counted(int(d.FailingAlone), "item"), view.Printable(d.FailingAloneFirst)),
			"Each keeps a slot of its workspace. After ten tries in at least five minutes it becomes a dead letter, unless " +
				"Temporal has its workflow.",
			"See `pgdispatch items show`, and remove the cause, or end it with `pgdispatch items give-up`."}
	}
	return ok(check, "no item fails to start while others start")
}

// checkMissing judges whether Temporal finds what runs.
func checkMissing(depths []operate.Depth) Finding {
	const check = "executions"
	d := depths[0]
	switch {
	case len(d.Vanished) > 0:
		return Finding{check, Problem, fmt.Sprintf("Temporal does not find %s in %s",
			view.Counted(int(d.Missing), "running execution"), view.Printable(strings.Join(d.Vanished, ", "))),
			"So many at once mean that this may be another or an older Temporal. They keep their slots, and nothing is " +
				"started in these namespaces.",
			"Check TEMPORAL_ADDRESS, and that Temporal's store is not an older copy. If the workflows are gone: " +
				"`pgdispatch executions give-up --all`."}
	case d.Missing > 0:
		return Finding{check, Warning, fmt.Sprintf("Temporal does not find %s",
			view.Counted(int(d.Missing), "running execution")), "They keep their slots until that is certain.",
			"Wait: after a minute they count as gone."}
	}
	return ok(check, "Temporal finds what runs, as far as it was asked")
}

func checkSignals(depths []operate.Depth) Finding {
	const check = "signals"
	d := depths[0]
	if d.OldestSignal != nil && *d.OldestSignal > view.LateSignal {
		return Finding{check, Warning,
			fmt.Sprintf("%s undelivered, the oldest for %s", view.Count(d.Signals), view.SpanOf(d.OldestSignal)),
			"Temporal refuses a signal or does not answer, or no replica delivers signals: those of an earlier version do " +
				"not. Later signals to the same workflow wait for it.",
			"See the errors: `pgdispatch executions signals --state open`. Upgrade replicas of an earlier version."}
	}
	return ok(check, "%s undelivered, none of them late", view.Count(d.Signals))
}

// checkOutage says what the replicas say of Temporal and the codec server, and whether they use the same.
func checkOutage(replicas []operate.Replica) Finding {
	const check = "outage"
	codecs := map[string]int{}
	for _, r := range replicas {
		codecs[r.State.Codec]++
	}
	seen := operate.Overview{Replicas: replicas, Depth: operate.Depth{MaxClaims: 1}}
	switch outage := view.OutageOf(seen); {
	case len(replicas) == 0:
		return ok(check, "no replica reports one")
	case outage != nil:
		return Finding{check, Problem, outage.What + " " + outage.Begun(), "Items wait.",
			"See the checks of Temporal and of the codec server here, and the replicas' logs."}
	case len(codecs) > 1:
		return Finding{check, Problem, fmt.Sprintf("the replicas use %d different codec endpoints", len(codecs)),
			"Workers may not decode what some replicas send.", "Set the same PGDISPATCH_CODEC_ENDPOINT for all replicas."}
	}
	return ok(check, "no replica reports one")
}
