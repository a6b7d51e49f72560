package view

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

// Severity is the urgency of a Concern.
type Severity string

// The severities.
const (
	Critical Severity = "critical" // no workflow is started
	Warning  Severity = "warning"
	Notice   Severity = "notice"
)

// Concern is something that needs attention.
type Concern struct {
	Severity Severity `json:"severity"`
	What     string   `json:"what"`
	Remedy   string   `json:"remedy"`
	// Since and Who are since when it is so, and who made it so. Nil and empty if this is not known.
	Since *time.Time `json:"since,omitempty"`
	Who   string     `json:"who,omitempty"`
}

// deadRemedy is the remedy for dead letters.
const deadRemedy = "`pgdispatch dead list`"

// Later reports whether the concern holds up no item.
func (c Concern) Later() bool { return c.Severity == Notice || c.Remedy == deadRemedy }

// lateAfter is how long an item may be due before it becomes a concern.
const lateAfter = 5 * time.Minute

// Concerns returns what needs attention, the most severe first. It is empty if the overview shows no problem.
func Concerns(o operate.Overview) []Concern {
	concerns := stops(o)
	add := func(is bool, severity Severity, remedy, format string, args ...any) {
		if is {
			concerns = append(concerns, Concern{Severity: severity, What: fmt.Sprintf(format, args...), Remedy: remedy})
		}
	}
	d, replicas := o.Depth, len(o.Replicas)
	refused := refusals(o)
	deaf, without, stale, version := 0, 0, 0, ""
	for _, r := range o.Replicas {
		stale += truth(r.State.Stale)
		version = cmp.Or(version, r.State.NoActivities)
		without += truth(r.State.PausedNamespaces > truth(r.State.NoActivities != "") && !r.State.BreakerOpen)
		deaf += truth(r.State.Listening != nil && !*r.State.Listening)
	}
	add(refused.replicas > 0 && refused.replicas < replicas, Warning, "see their logs, and `pgdispatch doctor`",
		"%s: they pause starts and probe.", refused.words(fmt.Sprintf("%d of %d replicas", refused.replicas, replicas)))
	add(stale > 0, Warning, "see its log; its items are taken over when its leases expire",
		"%d of %d replicas have not been heard of for 12 s: their state is not known.", stale, replicas)
	unanswered := unansweredConcern(d)
	add(unanswered != "", Warning, "see the replicas' logs, and `pgdispatch doctor`", "%s", unanswered)
	add(without > 0, Warning, "see the replicas' logs, and `pgdispatch doctor`",
		"A Temporal namespace accepts no workflows: its items wait, others are started.")
	add(version != "", Warning, operate.ActivitiesNeed,
		"Temporal %s starts no standalone activities: their items wait, workflows are started.", Printable(version))
	add(deaf > 0, Warning, "check with `pgdispatch doctor` whether LISTEN works",
		"%d of %d replicas do not listen: only polls wake them.", deaf, replicas)
	add(d.Parked > 0, Warning, "fix the trigger or constraint, then `pgdispatch items retry`",
		"A trigger or constraint prevents the claim of %s. Item %s", Number(d.Parked)+plural(d.Parked, " item", " items"),
		d.ParkedFirst)
	add(d.NotifyQueueFills(), Warning, "terminate the session that `pgdispatch doctor` names, or its query finds",
		"The notification queue of Postgres is %.0f %% full: starts wait for polls, up to 5 s each.", 100*d.NotifyQueue)
	add(d.DeadLetters > 0, Warning, deadRemedy,
		"%s dead %s to be replayed or discarded.", capital(Dead(d)), plural(d.DeadLetters, "letter waits", "letters wait"))
	add(d.WithoutPoller > 0, Warning, "start workers, or correct task_queue in the workflow definitions",
		"%s on %s that no worker polls.",
		capital(Number(d.WithoutPoller)+plural(d.WithoutPoller, " execution is", " executions are")),
		plural(d.IdleQueues, "a task queue", "task queues"))
	add(d.Failing > 0, Warning, "fix the worker, or `pgdispatch executions terminate`",
		"The workflow task of %s fails repeatedly.", Number(d.Failing)+plural(d.Failing, " execution", " executions"))
	lateSignal(d, add)
	late := d.OldestWaiting != nil && *d.OldestWaiting > lateAfter
	add(late && d.Claimed >= int64(d.MaxClaims) && d.MaxClaims > 0, Warning,
		"raise it: `pgdispatch settings set max-claims N`",
		"An item has been due for %s, and all %d leases are in use.", SpanOf(d.OldestWaiting), d.MaxClaims)
	add(late && d.Claimed < int64(d.MaxClaims), Notice,
		"check whether the longest waiting workspaces in `pgdispatch status` are paused or at their limit, "+
			"and whether limits of keys are full",
		"An item has been due for %s.", SpanOf(d.OldestWaiting))
	givenUpSignals(d, add)
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
