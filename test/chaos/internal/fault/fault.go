// Package fault is the table of all faults that the harness can inject: what each is, which entries of the matrix it
// covers, how it is injected and lifted, what is measured, and the limit of that figure.
package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/lab"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/postgres"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/schedule"
)

// Domains of faults. Two faults of one domain are never active at the same time.
const (
	replicas = "replicas"
	database = "postgres"
	server   = "temporal"
	limits   = "limits"
	sessions = "sessions"
)

// Fault is a condition that the harness can inject.
type Fault struct {
	// Name is the name in the schedule.
	Name string
	// Matrix holds the numbers of the fault matrix that it covers.
	Matrix []int
	// Domain is what it breaks.
	Domain string
	// How describes how it is injected, and Lift how it ends.
	How, Lift string
	// Figure describes what is measured, in seconds unless Unit is set. Limit is its maximum.
	Figure string
	Limit  float64
	Unit   string
	// Shortest and Longest bound how long it lasts.
	Shortest, Longest time.Duration
	// Alone excludes it from safety runs, where several faults overlap and its preconditions cannot be met.
	Alone bool
	// Long excludes it from short runs.
	Long bool
	// Inject injects the fault. The returned Lift is called after Scene.Hold.
	Inject func(ctx context.Context, s *Scene) (Lift, error)
}

// Lift ends a fault. The returned Measure measures the recovery. Nil means that there is nothing left to measure.
type Lift func(ctx context.Context) (Measure, error)

// Measure returns the figure.
type Measure func(ctx context.Context) (float64, error)

// Scene is the environment of a fault.
type Scene struct {
	*lab.Lab
	// Rand makes the fault's choices.
	Rand *rand.Rand
	// Hold is how long the fault will last.
	Hold time.Duration
	// Measured means that a figure is needed, so the fault must hit a replica that holds items.
	Measured bool
}

// Result is the result of a fault.
type Result struct {
	Fault *Fault
	// Value is the figure. It is valid if Measured is set.
	Value    float64
	Measured bool
	// Err is why the fault could not be injected, lifted or measured.
	Err error
}

// OK reports whether the fault was injected and lifted without error and its figure, if measured, is within the limit.
func (r Result) OK() bool { return r.Err == nil && (!r.Measured || r.Value <= r.Fault.Limit) }

// String returns the figure beside its limit.
func (r Result) String() string {
	unit := r.Fault.Unit
	if unit == "" {
		unit = "s"
	}
	switch {
	case r.Err != nil:
		return fmt.Sprintf("error: %v", r.Err)
	case !r.Measured:
		return "nothing measured"
	}
	return fmt.Sprintf("%.2f %s (limit %.2f)", r.Value, unit, r.Fault.Limit)
}

// All returns all faults.
func All() []*Fault {
	return slices.Concat(killFaults(), stopFaults(), postgresFaults(), sessionFaults(), networkFaults(), temporalFaults(),
		limitFaults(), rowFaults(),
		processFaults(), storageFaults(), clockFaults(), tenantFaults(), refusedFaults(), settingFaults(),
		quietFaults(), longFaults())
}

// Kinds returns what the schedule needs to know of faults.
func Kinds(faults []*Fault) []schedule.Kind {
	kinds := make([]schedule.Kind, 0, len(faults))
	for _, f := range faults {
		kinds = append(kinds, schedule.Kind{Name: f.Name, Domain: f.Domain, Shortest: f.Shortest, Longest: f.Longest})
	}
	return kinds
}

// Run injects a fault, holds it, lifts it, and measures.
func Run(ctx context.Context, l *lab.Lab, f *Fault, e schedule.Entry, measure bool) Result {
	s := &Scene{Lab: l, Rand: rand.New(rand.NewPCG(e.Seed, 0)), Hold: e.Hold, Measured: measure}
	l.Logf("%s: %s", f.Name, f.How)
	lift, err := f.Inject(ctx, s)
	if errors.Is(err, postgres.ErrNotHere) {
		l.Logf("%s: %v", f.Name, err)
		if lift != nil {
			_, _ = lift(ctx)
		}
		return Result{Fault: f}
	}
	if err == nil {
		err = lab.Sleep(ctx, e.Hold)
	}
	if lift == nil {
		return Result{Fault: f, Err: errors.Join(fmt.Errorf("make %s", f.Name), err)}
	}
	m, liftErr := lift(ctx)
	if err = errors.Join(err, liftErr); err != nil {
		return Result{Fault: f, Err: err}
	}
	if m == nil || !measure {
		return Result{Fault: f}
	}
	value, err := m(ctx)
	if errors.Is(err, errNothingHeld) {
		return Result{Fault: f} // it hit nothing, which does not count as a pass
	}
	return Result{Fault: f, Value: value, Measured: err == nil, Err: err}
}

// errNothingHeld means that the replica held no item when the fault came, so that there is nothing to reclaim.
var errNothingHeld = errors.New("the replica held nothing")

// tolerance is how long a figure is awaited beyond its limit before it counts as never.
const tolerance = 15 * time.Second

// firstMove measures the time from a moment until the first item is moved to a status by a transaction that began
// after it.
func firstMove(l *lab.Lab, status string, from time.Time) Measure {
	return func(ctx context.Context) (float64, error) {
		var at *time.Time
		err := lab.Await(ctx, 2*tolerance, "an item becomes "+status, func() (bool, error) {
			err := l.Row(ctx, "first_move", []any{status, from}, &at)
			return at != nil, err
		})
		if err != nil {
			return 0, err
		}
		return at.Sub(from).Seconds(), nil
	}
}

// gap measures the longest time without a transition to a status, from a moment until shortly after now.
func gap(l *lab.Lab, status string, from time.Time) Measure {
	return func(ctx context.Context) (float64, error) {
		to := time.Now()
		if _, err := firstMove(l, status, to)(ctx); err != nil {
			return 0, err
		}
		var seconds float64
		err := l.Row(ctx, "gap", []any{status, from, to}, &seconds)
		return seconds, err
	}
}

// reclaimed measures the time from a moment until the last of these items has been claimed again or has ended.
func reclaimed(l *lab.Lab, items []int64, from time.Time) Measure {
	return func(ctx context.Context) (float64, error) {
		if len(items) == 0 {
			return 0, errNothingHeld
		}
		var at *time.Time
		err := lab.Await(ctx, lab.Lease+tolerance, "the items are claimed again", func() (bool, error) {
			err := l.Row(ctx, "reclaimed", []any{items, from}, &at)
			return at != nil, err
		})
		if err != nil {
			return 0, err
		}
		return at.Sub(from).Seconds(), nil
	}
}

// Limits in seconds, derived from the replicas' settings.
var (
	deadHolder    = (lab.Lease + time.Second).Seconds()
	postgresBack  = (3*time.Second + lab.PollInterval).Seconds()
	temporalBack  = 5.0
	listenerLost  = 3.0
	onePoll       = (lab.PollInterval + time.Second).Seconds()
	oneReplicaOut = (lab.PollInterval + lab.StartTimeout + time.Second).Seconds()
)

// once is the Lift of a fault that is over as soon as it is injected.
func once(m Measure) Lift { return func(context.Context) (Measure, error) { return m, nil } }
