package replica

import (
	"slices"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/dispatch"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/sweeper"
)

// saw passes the results of a sweep to the parts, so that they need no queries of their own.
func (r *replica) saw(swept sweeper.Swept, err error) {
	r.telemetry.Swept(swept, err)
	if err != nil {
		return
	}
	r.wake.Ring(dispatch.WakePoll) // cheap, so every poll triggers a claim
	r.open.Store(swept.Open > 0)
	r.unwatched.Store(swept.Unwatched)
	r.deletes.Store(swept.Deletes)
	r.announces.Store(swept.Announces)
	if swept.Stops {
		r.stopping()
	}
	if swept.Signals {
		r.signaler.Announced(true)
	}
	r.sawNamespaces(swept.Namespaces)
	r.sawVanished(swept.Vanished)
	// If the table assigns more executions to this replica than it knows of, the answer to a settle was lost.
	r.watcher.Unwatched(swept.Unwatched || swept.Mine > r.watcher.Watching())
}

// sawNamespaces stores the namespaces that definitions use, with the lanes of activities. An empty name stands for this
// replica's namespace, which always counts as used: while it accepts workflows, a refusal by the namespace of a
// definition pauses only that one.
func (r *replica) sawNamespaces(named []string) {
	inUse := append(make([]string, 0, len(named)+1), r.namespace)
	for _, name := range named {
		switch name {
		case "":
			name = r.namespace
		case claim.ActivitiesOf(""):
			name = claim.ActivitiesOf(r.namespace)
		}
		if !slices.Contains(inUse, name) {
			inUse = append(inUse, name)
		}
	}
	r.namespaces.Store(&inUse)
}

// sawVanished stores the namespaces in which many running executions are missing, and wakes the dispatcher if they have
// changed.
func (r *replica) sawVanished(vanished []string) {
	lanes := []string{}
	for _, name := range vanished {
		if name == "" {
			name = r.namespace
		}
		lanes = append(lanes, name, claim.ActivitiesOf(name))
	}
	slices.Sort(lanes)
	lanes = slices.Compact(lanes) // some definitions name this replica's namespace, and others none
	was := r.vanished.Swap(&lanes)
	if was == nil && len(lanes) == 0 || was != nil && slices.Equal(*was, lanes) {
		return
	}
	if len(lanes) > 0 {
		r.log.Error(
			"Many running executions are missing in Temporal; starting nothing in their namespaces. They keep their slots",
			"namespaces", vanished, "remedy", operate.VanishedRemedy)
	} else {
		r.log.Info("Temporal finds running executions again; resuming starts")
	}
	r.wake.Ring("resume")
}

// vanishedNamespaces returns the lanes in which nothing is started, because many running executions are missing there.
func (r *replica) vanishedNamespaces() []string {
	if lanes := r.vanished.Load(); lanes != nil {
		return *lanes
	}
	return nil
}

func (r *replica) namespacesInUse() []string {
	if inUse := r.namespaces.Load(); inUse != nil {
		return *inUse
	}
	return []string{r.namespace}
}

// refusedNamespace returns this replica's namespace if Temporal does not serve it, or "".
func (r *replica) refusedNamespace() string {
	if r.reach.Refused() != nil {
		return r.namespace
	}
	return ""
}

// notified wakes the dispatcher if this replica is on duty. One insert should cost one claim, regardless of the number
// of replicas.
func (r *replica) notified(payload string) {
	if r.gate.OnDuty() {
		r.wake.Notified(payload)
	}
}

// stopping wakes the stopper.
func (r *replica) stopping() { poke(r.stopWake) }

// poke wakes a part. Wake-ups are merged while one is pending.
func poke(part chan<- struct{}) {
	select {
	case part <- struct{}{}:
	default:
	}
}
