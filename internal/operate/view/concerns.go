package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/pgdispatch/pgdispatch/claim"
)

// Severity says how soon somebody should look.
type Severity string

// The severities.
const (
	Critical Severity = "critical" // nothing is started
	Warning  Severity = "warning"
	Notice   Severity = "notice"
)

// Concern is something that needs attention.
type Concern struct {
	Severity Severity `json:"severity"`
	What     string   `json:"what"`
	Remedy   string   `json:"remedy"`
}

// lateAfter is for how long an item may be due before it is worth a word.
const lateAfter = 5 * time.Minute

// Concerns says what needs attention, the worst first; none: all is well, as far as an overview shows.
func Concerns(o claim.Overview) []Concern {
	concerns := []Concern{}
	add := func(is bool, severity Severity, remedy, format string, args ...any) {
		if is {
			concerns = append(concerns, Concern{severity, fmt.Sprintf(format, args...), remedy})
		}
	}
	d, replicas := o.Depth, len(o.Replicas)
	refused, deaf, without := 0, 0, 0
	for _, r := range o.Replicas {
		refused += truth(r.State.BreakerOpen)
		without += truth(r.State.PausedNamespaces > 0 && !r.State.BreakerOpen)
		deaf += truth(r.State.Listening != nil && !*r.State.Listening)
	}
	add(replicas == 0, Critical, "start one with `pgdispatch run`", "No replica runs, so nothing is started.")
	add(d.Paused, Critical, "`pgdispatch settings set paused false`", "Everything is paused by a setting: nothing is claimed.")
	add(d.MaxClaims == 0, Critical, "`pgdispatch settings set max-claims 100`", "max-claims is 0, so nothing is claimed.")
	add(refused > 0 && refused == replicas, Critical, "see their logs, and `pgdispatch doctor`",
		"Temporal takes no workflows from any replica: starting is paused, and probed.")
	add(refused > 0 && refused < replicas, Warning, "see their logs, and `pgdispatch doctor`",
		"Temporal takes no workflows from %d of %d replicas: they pause, and probe.", refused, replicas)
	add(without > 0, Warning, "the replicas' logs name it; `pgdispatch doctor` says what is wrong", "A namespace of Temporal takes no workflows: its items wait, and no others.")
	add(deaf > 0, Warning, "`pgdispatch doctor` says whether LISTEN delivers", "%d of %d replicas do not listen: they are woken by polls.", deaf, replicas)
	add(d.Parked > 0, Warning, "mend the trigger or constraint, then `pgdispatch items retry`",
		"The database lets nobody claim %s. Item %s", Number(d.Parked)+plural(d.Parked, " item", " items"), d.ParkedFirst)
	add(d.NotifyQueue >= claim.NotifyBound, Warning, "`pgdispatch doctor` names the session that holds it: end it",
		"The notification queue of Postgres is %.0f %% full: starts wait for polls, up to 5 s each.", 100*d.NotifyQueue)
	add(d.DeadLetters > 0, Warning, "`pgdispatch dead list`", "%s dead %s for somebody to replay or discard.", capital(Dead(d)), plural(d.DeadLetters, "letter waits", "letters wait"))
	add(d.WithoutPoller > 0, Warning, "start workers, or correct the definitions' task_queue",
		"%s on %s that no worker polls.", capital(Number(d.WithoutPoller)+plural(d.WithoutPoller, " execution is", " executions are")), plural(d.IdleQueues, "a task queue", "task queues"))
	add(d.Failing > 0, Warning, "mend the worker, or `pgdispatch executions terminate`",
		"The workflow task of %s fails again and again.", Number(d.Failing)+plural(d.Failing, " execution", " executions"))
	late := d.OldestWaiting != nil && *d.OldestWaiting > lateAfter
	add(late && d.Claimed >= int64(d.MaxClaims) && d.MaxClaims > 0, Warning, "raise it: `pgdispatch settings set max-claims N`",
		"An item has been due for %s, and all %d items that may be leased at once are.", SpanOf(d.OldestWaiting), d.MaxClaims)
	add(late && d.Claimed < int64(d.MaxClaims), Notice, "`pgdispatch status` lists the workspaces that wait longest: are they at their limit, or paused?",
		"An item has been due for %s.", SpanOf(d.OldestWaiting))
	return concerns
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

func plural(n int64, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func truth(is bool) int {
	if is {
		return 1
	}
	return 0
}
