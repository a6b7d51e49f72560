package claim

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/pgdispatch/pgdispatch/claim/schedule"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
)

const (
	// mostParked is the maximum number of items that one claim parks before it returns the error.
	mostParked = 4
	// mostOfWorkspace is the number of items of one workspace that a replica parks before it skips the workspace for
	// parkedFor.
	mostOfWorkspace = 16
	parkedFor       = compareInterval
)

// Parked is a waiting item that cannot be claimed because a trigger or constraint rejects the update.
type Parked struct {
	ID          int64
	WorkspaceID string
	// New reports whether the item was not parked before.
	New bool
	Err error
}

// refusedHead is the item that a claim of a single item was about to take.
type refusedHead struct {
	ID        int64
	Workspace schedule.WorkspaceID `db:"workspace_id"`
}

// inHalves calls do, which returns the IDs of the items it updated. If some items are rejected, inHalves bisects the
// batch to update the others, and returns the errors of the rejected ones. Any other error is returned alone, because
// the call can be repeated.
func inHalves[T any](items []T, do func([]T) ([]int64, error)) ([]int64, error) {
	moved, err := do(items)
	if len(items) <= 1 || !postgres.IsRefused(err) {
		return moved, err
	}
	half := len(items) / 2
	first, err := inHalves(items[:half], do)
	if err != nil && !postgres.IsRefused(err) {
		return first, err
	}
	second, others := inHalves(items[half:], do)
	if others == nil || postgres.IsRefused(others) {
		others = errors.Join(err, others)
	}
	return append(first, second...), others
}

// claimAround claims what it can after a claim was rejected with err. It halves the claim until it asks for one item,
// parks that item if it is rejected, and continues without it. All replicas skip a parked item for a while: see
// sql/claim/parked.sql.
func (s *Store) claimAround(ctx context.Context, wanted Wanted, want schedule.Want, err error, batch *Batch) error {
	m := &s.memory
	for head := (*refusedHead)(nil); postgres.IsRefused(err); {
		switch {
		case want.Free > 1:
			want.Free /= 2
		case head == nil: // repeat, to identify the item
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
		_, _, err = s.sendOne(ctx, false, nil, wanted, proposal, head, batch)
	}
	return err
}

// park makes all replicas skip an item for a while, and makes this one skip its workspace if it has parked many of its
// items.
func (s *Store) park(ctx context.Context, head refusedHead, why error, batch *Batch) error {
	isNew, err := postgres.Value[bool](ctx, s.async(), "park item", sql.Text("park"), head.ID, postgres.Clean(why.Error()))
	if err != nil {
		return err
	}
	batch.Parked = append(batch.Parked,
		Parked{ID: head.ID, WorkspaceID: uuid.UUID(head.Workspace).String(), New: isNew, Err: why})
	m := &s.memory
	if m.parked == nil {
		m.parked = map[schedule.WorkspaceID]int{}
	}
	if m.parked[head.Workspace]++; m.parked[head.Workspace] >= mostOfWorkspace {
		m.schedule.Defer(head.Workspace, m.now().Add(parkedFor))
	}
	return nil
}
