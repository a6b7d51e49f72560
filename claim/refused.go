package claim

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgdispatch/pgdispatch/claim/schedule"
	"github.com/pgdispatch/pgdispatch/sql"
)

const (
	// mostParked is how many items one claim parks at the most, before it gives up with the error.
	mostParked = 4
	// mostOfLane is how many of a workspace's items a replica has parked before it leaves the workspace alone for parkedFor.
	mostOfLane = 16
	parkedFor  = compareInterval
)

// Parked is an item that waits and that cannot be claimed.
type Parked struct {
	ID          int64
	WorkspaceID string
	// New: it was not parked before.
	New bool
	Err error
}

// refusedHead is the item that a claim of one was about to take.
type refusedHead struct {
	ID   int64
	Lane schedule.Lane
}

// notOfRows are the classes of errors that say nothing of a row: connections, transactions, locks, resources and the operator.
var notOfRows = []string{"08", "25", "28", "3D", "40", "53", "55", "57", "58"}

// refused says whether Postgres refused a statement for what is in a row, so that it may take the statement without that row. A trigger or
// a constraint of somebody's own can do that.
func refused(err error) bool {
	var postgres *pgconn.PgError
	if !errors.As(err, &postgres) || postgres.Severity == "FATAL" || len(postgres.Code) != 5 || postgres.Code == "PGD30" {
		return false
	}
	switch class := postgres.Code[:2]; {
	case slices.Contains(notOfRows, class):
		return false
	case class == "42": // a privilege or a name that is not there: of a row only where somebody else's function missed it
		return postgres.Where != "" && !strings.HasPrefix(postgres.Where, "PL/pgSQL function pgdispatch.")
	}
	return true
}

// IsRefused says whether some of the items of a Settle were refused by a trigger or a constraint of the database. It is of no use to repeat
// them at once.
func IsRefused(err error) bool { return refused(err) }

// inHalves moves items by do, which returns the IDs that it moved. Where some of them are refused, it moves the others, and returns why those
// were refused.
func inHalves[T any](items []T, do func([]T) ([]int64, error)) ([]int64, error) {
	moved, err := do(items)
	if len(items) <= 1 || !refused(err) {
		return moved, err
	}
	half := len(items) / 2
	first, err := inHalves(items[:half], do)
	if err != nil && !refused(err) {
		return first, err
	}
	second, others := inHalves(items[half:], do)
	return append(first, second...), errors.Join(err, others)
}

// claimAround claims what it can where a claim was refused with err: in smaller parts, until the item at fault stands alone and is
// parked, and then without it. An item that is parked is passed over by all replicas for a while: see sql/park.sql.
func (s *Store) claimAround(ctx context.Context, wanted Wanted, want schedule.Want, err error, batch *Batch) error {
	m := &s.memory
	for head := (*refusedHead)(nil); refused(err); {
		switch {
		case want.Free > 1:
			want.Free /= 2
		case head == nil: // once more, to know which item it is
			head = &refusedHead{}
		case head.ID == 0 || len(batch.Parked) == mostParked:
			return err
		default:
			if parkErr := s.park(ctx, *head, err, batch); parkErr != nil {
				return errors.Join(err, parkErr)
			}
			want.Free, head = wanted.AtMost, nil
		}
		proposal := m.schedule.Propose(m.now(), want)
		if proposal.Empty() {
			return nil
		}
		_, err = s.send(ctx, nil, wanted, proposal, head, batch)
	}
	return err
}

// park has an item passed over, and leaves its workspace alone where it has many of them.
func (s *Store) park(ctx context.Context, head refusedHead, why error, batch *Batch) error {
	isNew, err := one[bool](ctx, s.async(), settleTimeout, "park item", sql.Park, head.ID, Clean(why.Error()))
	if err != nil {
		return err
	}
	batch.Parked = append(batch.Parked, Parked{ID: head.ID, WorkspaceID: uuid.UUID(head.Lane).String(), New: isNew, Err: why})
	m := &s.memory
	if m.parked == nil {
		m.parked = map[schedule.Lane]int{}
	}
	if m.parked[head.Lane]++; m.parked[head.Lane] >= mostOfLane {
		m.schedule.Defer(head.Lane, m.now().Add(parkedFor))
	}
	return nil
}
