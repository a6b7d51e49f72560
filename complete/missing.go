package complete

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/attempt"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
)

const (
	// missingFor is for how long Temporal must not find an execution before it counts as gone. A failover that lags, or a
	// connection to another cluster, is over by then, or is seen by how many executions are missing.
	missingFor = time.Minute
	// missingPause and missingPauseCap limit the pauses between two questions about an execution that is missing.
	missingPause    = time.Second
	missingPauseCap = 10 * time.Second
)

// MissingStore notes which executions Temporal does not find.
type MissingStore interface {
	// NoteMissing notes that Temporal did not find an execution. known is false if it has ended.
	NoteMissing(ctx context.Context, executionID string, retention time.Duration) (note Note, known bool, err error)
	// NoteFound notes that Temporal finds it again.
	NoteFound(ctx context.Context, executionID string) error
}

// Note is what is known of an execution that Temporal does not find.
type Note struct {
	// MissingFor is for how long every question about it was answered in this way.
	MissingFor time.Duration
	// Young reports whether it started within the retention of its namespace. Then Temporal cannot have forgotten its end.
	Young bool
	// Missing is how many young executions of its namespace are missing, and Watched of how many that Temporal is asked
	// about.
	Missing, Watched int
	// GivenUpBy is the person who said that it is gone. Empty if nobody did.
	GivenUpBy string
}

// vanishes reports whether so many executions are missing at once that Temporal's state is in doubt, and not these
// executions. See also the function vanished in package sql.
func (n Note) vanishes() bool { return n.Missing >= 3 && 2*n.Missing >= n.Watched }

// gone reports whether the execution counts as gone.
func (n Note) gone() bool {
	return n.GivenUpBy != "" || n.MissingFor >= missingFor && !(n.Young && n.vanishes())
}

// Looker asks Temporal about an execution without waiting for its end. temporal.Client implements it.
type Looker interface {
	Look(ctx context.Context, execution temporal.Execution) (end temporal.End, ended bool, err error)
	// Retention returns for how long a namespace retains workflows that have ended.
	Retention(ctx context.Context, namespace string) (time.Duration, error)
}

// Missing decides about executions that Temporal does not find. Such an execution keeps its slot until all answers of a
// minute agree. If many are missing at once, they keep their slots until Temporal finds them again or a person gives
// them up. Set the fields before use and do not change them afterwards.
type Missing struct {
	Store    MissingStore
	Temporal Looker
	Log      *slog.Logger
}

// Decide asks about an execution that Temporal did not find, until it is found or counts as gone. It returns ended if
// the execution has ended in either way, and an error only if ctx is cancelled.
func (m *Missing) Decide(ctx context.Context, execution temporal.Execution) (end temporal.End, ended bool, err error) {
	var said attempt.Complaint
	answer := temporal.ErrMissing
	for pause := missingPause; ; pause = min(2*pause, missingPauseCap) {
		if isMissing(answer) { // silence is no answer, and proves nothing
			gone, err := m.Note(ctx, execution)
			if err == nil && gone {
				return temporal.Gone(execution.Kind), true, nil
			}
			if err != nil && ctx.Err() == nil && said.IsNew(err) {
				m.Log.WarnContext(ctx, "Cannot decide about an execution that Temporal does not find; it keeps its slot",
					"execution_id", execution.ID, "error", postgres.Clean(err.Error()))
			}
		}

		select {
		case <-ctx.Done():
			return temporal.End{}, false, context.Cause(ctx)
		case <-time.After(pause/2 + rand.N(pause/2+1)):
		}

		end, ended, answer = m.Temporal.Look(ctx, execution)
		if answer != nil { // missing still, or no answer
			continue
		}
		if err := m.Store.NoteFound(ctx, execution.ID); err != nil && ctx.Err() == nil {
			m.Log.WarnContext(ctx, "Cannot note that an execution is found again", "execution_id", execution.ID, "error", err)
		}
		m.Log.InfoContext(ctx, "Temporal finds an execution again", "execution_id", execution.ID)
		return end, ended, nil
	}
}

// Note notes that Temporal did not find an execution, and reports whether it counts as gone.
func (m *Missing) Note(ctx context.Context, execution temporal.Execution) (gone bool, err error) {
	retention, err := m.Temporal.Retention(ctx, execution.Namespace)
	if err != nil {
		return false, fmt.Errorf("read the namespace's retention: %w", err)
	}
	note, known, err := m.Store.NoteMissing(ctx, execution.ID, retention)
	if err != nil || !known { // its end was recorded meanwhile, and is not recorded twice
		return !known && err == nil, err
	}

	if note.MissingFor == 0 && note.Missing <= 3 {
		m.Log.WarnContext(ctx, "Temporal does not find an execution that runs; it keeps its slot and is asked about again",
			"execution_id", execution.ID, "namespace", execution.Namespace)
	}
	return note.gone(), nil
}

// isMissing reports whether an error says that Temporal does not find an execution.
func isMissing(err error) bool { return errors.Is(err, temporal.ErrMissing) }
