package complete

import "time"

const (
	// crowdedPause is how long the bound stays after Temporal has refused a long poll, and how soon another refusal may halve it.
	crowdedPause = 10 * time.Second
	// easeSteps is in how many steps a bound that was never refused would come back from nothing.
	easeSteps = 20
)

// bound is how many watches there may be: limit, or fewer for a while after Temporal has refused one. The namespace's long polls
// are everybody's, so nobody can know how many are left. There is one for all namespaces, though each has a limit of its own: where
// one is crowded, the others' executions are watched less too, and the reconciler finds their ends within a second or so. Bounds of
// their own would have to be known to the statements that adopt and swap watches, or they would take what is then given up.
type bound struct {
	limit, now int
	calm       time.Time // no refusal counts before
}

// refused halves the bound, once for all refusals of a while.
func (b *bound) refused(watching int) (halved bool) {
	if time.Now().Before(b.calm) {
		return false
	}
	b.now = min(b.now, watching) / 2
	b.calm = time.Now().Add(crowdedPause)
	return true
}

// ease lets the bound creep up again.
func (b *bound) ease() {
	if b.now < b.limit && !time.Now().Before(b.calm) {
		b.now = min(b.limit, b.now+max(1, b.limit/easeSteps))
	}
}
