package simpg

import (
	"time"

	"github.com/pgdispatch/pgdispatch/claim/schedule"
)

// missing is what is noted of an execution that Temporal does not find. The zero value means that it was not missing.
type missing struct{ since, askedAt time.Time }

// again returns the note after another such answer.
func (m missing) again(now time.Time) missing {
	if now.Sub(m.askedAt) < 3*time.Minute {
		return missing{earlier(m.since, now), now}
	}
	return missing{now, now}
}

// Missing is what the statement of that name returns.
type Missing struct {
	For              time.Duration
	Young            bool
	Missing, Watched int
}

// NoteMissing is the statement missing. It returns nil if the item does not run.
func (s *Postgres) NoteMissing(tx *Tx, id int64, retention time.Duration, sameNamespace func(id int64) bool) *Missing {
	row := s.rows[id]
	if row.status != rowDispatched {
		return nil
	}
	next := s.change(tx, row)
	next.missing = row.missing.again(s.now)

	m := &Missing{For: s.now.Sub(next.missing.since), Young: s.now.Sub(row.startedAt) < retention}
	for _, r := range s.rows[1:] {
		if r.status != rowDispatched || !sameNamespace(r.id) {
			continue
		}
		isMissing := r.id == id || s.now.Sub(r.missing.askedAt) < 3*time.Minute
		if isMissing && s.now.Sub(r.startedAt) < retention {
			m.Missing++
		}
		if isMissing || r.watcher != 0 {
			m.Watched++
		}
	}
	return m
}

// NoteFound is the statement found.
func (s *Postgres) NoteFound(tx *Tx, id int64) {
	if !s.rows[id].missing.askedAt.IsZero() {
		s.change(tx, s.rows[id]).missing = missing{}
	}
}

// WorkspaceOf returns the workspace of an item.
func (s *Postgres) WorkspaceOf(id int64) schedule.WorkspaceID { return s.rows[id].workspace }
