package complete

import "time"

const (
	// crowdedPause is the minimum time between two halvings, and the delay before the bound grows again.
	crowdedPause = 10 * time.Second
	// easeSteps is the number of ease calls in which the bound grows from zero to limit.
	easeSteps = 20
)

// bound caps the number of concurrent watches. It equals limit and drops temporarily when Temporal refuses a long poll.
// All clients of a namespace share its long polls, so the remaining capacity cannot be known in advance.
//
// One bound covers all namespaces: if one is crowded, the Reconciler finds ends in the others within about a second.
// Bounds by namespace would have to reach the statements that adopt and swap watches.
type bound struct {
	limit, now int
	calm       time.Time // refusals before this time are ignored
}

// refused halves the bound and reports whether it did so. It ignores refusals within crowdedPause of a halving.
func (b *bound) refused(watching int) (halved bool) {
	if time.Now().Before(b.calm) {
		return false
	}
	b.now = min(b.now, watching) / 2
	b.calm = time.Now().Add(crowdedPause)
	return true
}

// ease raises the bound by one step. It does nothing until crowdedPause has passed since the last halving.
func (b *bound) ease() {
	if b.now < b.limit && !time.Now().Before(b.calm) {
		b.now = min(b.limit, b.now+max(1, b.limit/easeSteps))
	}
}
