// Package fault is the table of all faults that the harness can make: what each is, which of the matrix it covers, how it is
// made and lifted, and what is measured of it against which limit.
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

// Domains: what a fault breaks. Two faults of one domain are never there at the same time.
const (
	replicas = "replicas"
	database = "postgres"
	server   = "temporal"
	limits   = "limits"
	sessions = "sessions"
)

// Fault is one way in which the world is not as it should be.
type Fault struct {
	// Name is what the schedule calls it.
	Name string
	// Matrix are the numbers of the fault matrix that it covers.
	Matrix []int
	// Domain is what it breaks.
	Domain string
	// How says how it is made, and Lift how it ends.
	How, Lift string
	// Figure says what is measured, in seconds unless Unit says otherwise, and Limit is what it may be at the most.
	Figure string
	Limit  float64
	Unit   string
	// Shortest and Longest say how long it stays.
	Shortest, Longest time.Duration
	// Alone keeps it out of safety runs, where several come together: what it needs could not be had there.
	Alone bool
	// Long keeps it out of short runs.
	Long bool
	// Inject makes it. What it returns lifts it, after Scene.Hold.
	Inject func(ctx context.Context, s *Scene) (Lift, error)
}

// Lift ends a fault. What it returns measures the recovery; nil: it is measured already or there is nothing to measure.
type Lift func(ctx context.Context) (Measure, error)

// Measure returns the figure.
type Measure func(ctx context.Context) (float64, error)

// Scene is where a fault happens.
type Scene struct {
	*lab.Lab
	// Rand makes its choices.
	Rand *rand.Rand
	// Hold is how long it will stay.
	Hold time.Duration
	// Measured: there is to be a figure, so it must not hit somebody who holds nothing.
	Measured bool
}

// Result is what became of a fault.
type Result struct {
	// Fault is which.
	Fault *Fault
	// Value is the figure; Measured says that there is one.
	Value    float64
	Measured bool
	// Err is why the fault could not be made, lifted or measured.
	Err error
}

// OK says that the fault was made and its figure is within the limit.
func (r Result) OK() bool { return r.Err == nil && (!r.Measured || r.Value <= r.Fault.Limit) }

// String is the figure beside its limit.
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

// All are all faults.
func All() []*Fault {
	return slices.Concat(replicaFaults(), postgresFaults(), sessionFaults(), networkFaults(), temporalFaults(), limitFaults(), rowFaults(),
		processFaults(), storageFaults(), clockFaults(), tenantFaults(), refusedFaults(), settingFaults(), longFaults())
}

// Kinds are what the schedule needs to know of faults.
func Kinds(faults []*Fault) []schedule.Kind {
	kinds := make([]schedule.Kind, 0, len(faults))
	for _, f := range faults {
		kinds = append(kinds, schedule.Kind{Name: f.Name, Domain: f.Domain, Shortest: f.Shortest, Longest: f.Longest})
	}
	return kinds
}

// Run makes a fault, keeps it, lifts it, and measures.
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
		return Result{Fault: f} // it hit nobody: that is no pass
	}
	return Result{Fault: f, Value: value, Measured: err == nil, Err: err}
}

// errNothingHeld is that a replica held no item when the fault came, so that there is nothing to be claimed again.
var errNothingHeld = errors.New("the replica held nothing")

// tolerance is how long a figure is waited for, beyond its limit, before it counts as never.
const tolerance = 15 * time.Second

// firstMove measures how long after a time the first item was moved to a status, by a transaction that began after it.
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

// gap measures the longest time without a move to a status, from a time until a little after now.
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

// reclaimed measures how long after a time the last of these items was claimed again, or had ended.
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

// Limits in seconds, from what the replicas are told.
var (
	deadHolder    = (lab.Lease + time.Second).Seconds()
	postgresBack  = (3*time.Second + lab.PollInterval).Seconds()
	temporalBack  = 5.0
	listenerLost  = 3.0
	onePoll       = (lab.PollInterval + time.Second).Seconds()
	oneReplicaOut = (lab.PollInterval + lab.StartTimeout + time.Second).Seconds()
)

// once is a fault that is over as soon as it is made.
func once(m Measure) Lift { return func(context.Context) (Measure, error) { return m, nil } }
