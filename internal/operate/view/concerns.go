package view

import (
	"cmp"
	"fmt"
	"slices"
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
	var failing []string
	for _, r := range o.Replicas {
		stale += truth(r.State.Stale)
		version = cmp.Or(version, r.State.NoActivities)
		failing = append(failing, r.State.Failing...)
		without += truth(r.State.PausedNamespaces > truth(r.State.NoActivities != "") && !r.State.BreakerOpen)
		deaf += truth(r.State.Listening != nil && !*r.State.Listening)
	}
	add(refused.replicas > 0 && refused.replicas < replicas, Warning, "see their logs, and `pgdispatch doctor`",
		"%s: they pause starts and probe.", refused.words(fmt.Sprintf("%d of %d replicas", refused.replicas, replicas)))
	add(stale > 0, Warning, "see its log; its items are taken over when its leases expire",
		"%d of %d replicas have not been heard of for 12 s: their state is not known.", stale, replicas)
	slices.Sort(failing)
	add(len(failing) > 0, Warning, "see `/readyz` and the replicas' logs for the error",
		"Parts of the upkeep fail: %s.", Printable(strings.Join(slices.Compact(failing), ", ")))
	unanswered := unansweredConcern(d)
	add(unanswered != "", Warning, "see the replicas' logs, and `pgdispatch doctor`", "%s", unanswered)
	uncertain := uncertainConcern(d)
	add(uncertain != "", Warning, "see the replicas' logs, and `pgdispatch doctor`", "%s", uncertain)
	add(without > 0, Warning, "see the replicas' logs, and `pgdispatch doctor`",
		"A Temporal namespace accepts no workflows: its items wait, others are started.")
	add(version != "", Warning, operate.ActivitiesNeed,
		"Temporal %s starts no standalone activities: their items wait, workflows are started.", Printable(version))
	add(deaf > 0, Warning, "check with `pgdispatch doctor` whether LISTEN works",
		"%d of %d replicas do not listen: only polls wake them.", deaf, replicas)
	add(d.Parked > 0, Warning, "fix the trigger or constraint, then `pgdispatch items retry`",
		"A trigger or constraint prevents the claim of %s. Item %s", Number(d.Parked)+plural(d.Parked, " item", " items"),
		d.ParkedFirst)
	add(d.FailingAlone > 0, Warning, "see `pgdispatch items show`; `pgdispatch items give-up` ends it",
		"Starts of %s keep failing while others start. Item %s", Counted(int(d.FailingAlone), "item"), d.FailingAloneFirst)
	missing := Counted(int(d.Missing), "running execution")
	add(len(d.Vanished) > 0, Warning, operate.VanishedRemedy,
		"Temporal does not find %s. So many at once mean that it may be another or an older Temporal: nothing is started "+
			"in %s.", missing, strings.Join(d.Vanished, ", "))
	add(d.Missing > 0 && len(d.Vanished) == 0, Notice, "wait; after a minute they count as gone",
		"Temporal does not find %s. They keep their slots until that is certain.", missing)
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

// unansweredAfter is how long a start may be unanswered before it becomes a concern. A replica asks again within
// seconds.
const unansweredAfter = 30 * time.Second

// Unanswered describes unanswered starts, or uncertain claims: how many, and for how long the first of them.
func Unanswered(items int64, oldest *time.Duration) string {
	if items == 0 || oldest == nil {
		return Number(items)
	}
	return fmt.Sprintf("%s for %s", Number(items), Span(*oldest))
}

// unansweredConcern describes starts that Temporal has not answered for long. It is empty if there are none.
func unansweredConcern(d operate.Depth) string {
	if d.OldestUnanswered == nil || *d.OldestUnanswered < unansweredAfter {
		return ""
	}
	return fmt.Sprintf("%s unanswered for %s. %s of a workspace until Temporal answers.",
		Number(d.Unanswered)+plural(d.Unanswered, " start is", " starts are"), Span(*d.OldestUnanswered),
		plural(d.Unanswered, "It holds a slot", "They hold slots"))
}

// InDoubt describes what keeps slots without a claim or a run: unanswered starts, and uncertain claims.
func InDoubt(unanswered int64, oldest *time.Duration, uncertain int64) string {
	if uncertain == 0 {
		return Unanswered(unanswered, oldest)
	}
	return Unanswered(unanswered, oldest) + ", uncertain " + Number(uncertain)
}

// uncertainConcern describes claims whose items are not known to be started or not for long. It is empty if there are
// none.
func uncertainConcern(d operate.Depth) string {
	if d.OldestUncertain == nil || *d.OldestUncertain < unansweredAfter {
		return ""
	}
	return fmt.Sprintf("%s uncertain for %s: the answer or the replica was lost, and Temporal is not asked yet. %s of a "+
		"workspace until Temporal answers.", Number(d.Uncertain)+plural(d.Uncertain, " claim is", " claims are"),
		Span(*d.OldestUncertain), plural(d.Uncertain, "Its item holds a slot", "Their items hold slots"))
}

// LateSignal is how long a signal may be undelivered before it becomes a concern.
const LateSignal = time.Minute

// SignalOf describes a signal to the item's workflow, and its progress.
func SignalOf(i operate.Item, s operate.Signal) string {
	text := fmt.Sprintf("signal %q sent by %s; ", s.Name, s.SentBy)
	switch {
	case s.State == "DELIVERED" && s.SettledAt != nil:
		return text + "accepted by Temporal after " + Span(s.SettledAt.Sub(s.SentAt))
	case s.State == "GIVEN_UP":
		return text + "given up: " + s.Error
	case s.Waits && (i.Status == "PENDING" || i.Status == "CLAIMED"):
		return text + "waits for the workflow's start"
	case s.Waits:
		return text + "waits for an earlier signal"
	case s.Error != "":
		return text + "not delivered yet: " + s.Error
	}
	return text + "not delivered yet"
}

// concern adds a Concern if it is one.
type concern func(is bool, severity Severity, remedy, format string, args ...any)

func lateSignal(d operate.Depth, add concern) {
	add(d.OldestSignal != nil && *d.OldestSignal > LateSignal, Warning, "`pgdispatch executions signals --state open`",
		"A signal to a workflow has not been delivered for %s.", SpanOf(d.OldestSignal))
}

func givenUpSignals(d operate.Depth, add concern) {
	add(d.SignalsGivenUp > 0, Notice, "`pgdispatch executions signals --state given-up`, then `resend`",
		"%s given up in the last day.",
		capital(Number(d.SignalsGivenUp)+plural(d.SignalsGivenUp, " signal to a workflow was", " signals to workflows were")))
}

// OutageOf returns the first of the concerns that stop all starts, or nil if there is none.
func OutageOf(o operate.Overview) *Concern {
	if concerns := stops(o); len(concerns) > 0 {
		return &concerns[0]
	}
	return nil
}

// stops returns what stops all starts. It is not nil.
func stops(o operate.Overview) []Concern {
	concerns, d := []Concern{}, o.Depth
	if len(o.Replicas) == 0 {
		concerns = append(concerns, Concern{Severity: Critical, What: "No replica is running, so no items are started.",
			Remedy: "start one with `pgdispatch run`"})
	}
	if d.Paused {
		concerns = append(concerns, Concern{Severity: Critical, Since: d.PausedSince, Who: d.PausedBy,
			What:   "Dispatching is paused by the settings, so no items are claimed.",
			Remedy: "`pgdispatch settings set paused false`"})
	}
	if d.MaxClaims == 0 {
		zero := Concern{Severity: Critical, What: "max-claims is 0, so no items are claimed.",
			Remedy: "`pgdispatch settings set max-claims 100`"}
		if !d.Paused {
			zero.Since, zero.Who = d.PausedSince, d.PausedBy
		}
		concerns = append(concerns, zero)
	}
	if r := refusals(o); r.replicas > 0 && r.replicas == len(o.Replicas) {
		concerns = append(concerns, Concern{Severity: Critical, Since: r.since,
			What:   r.words("any replica") + ": starts are paused, and the replicas probe.",
			Remedy: "see their logs, and `pgdispatch doctor`"})
	}
	return concerns
}

// refusal is from how many replicas Temporal accepts no workflows, since when from the first of them, and why.
type refusal struct {
	replicas, codecs int // codecs of them lack the codec server
	since            *time.Time
	cause            string
}

func refusals(o operate.Overview) (found refusal) {
	for _, r := range o.Replicas {
		if !r.State.BreakerOpen {
			continue
		}
		found.replicas, found.codecs = found.replicas+1, found.codecs+truth(r.State.CodecAway)
		if at := r.State.BreakerSince; at != nil && (found.since == nil || at.Before(*found.since)) {
			found.since = at
		}
		if r.State.BreakerCause != "" {
			found.cause = r.State.BreakerCause
		}
	}
	return found
}

// words says what these replicas lack, and why.
func (r refusal) words(from string) string {
	text := "Temporal accepts no workflows from " + from
	if r.codecs == r.replicas {
		text = "The codec server does not answer " + from + ", so nothing is sent to Temporal"
	}
	if r.cause != "" {
		text += " (" + Printable(r.cause) + ")"
	}
	return text
}

// Begun formats since when it is so, and who made it so, as a sentence. It is empty if neither is known.
func (c Concern) Begun() string {
	switch {
	case c.Since == nil:
		return ""
	case c.Who == "":
		return "Since " + c.Since.UTC().Format("2006-01-02 15:04:05 MST") + "."
	}
	return "Since " + c.Since.UTC().Format("2006-01-02 15:04:05 MST") + ", by " + Printable(c.Who) + "."
}
