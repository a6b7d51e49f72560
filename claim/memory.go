package claim

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/claim/schedule"
	"github.com/pgdispatch/pgdispatch/sql"
)

const (
	// compareInterval is how often all that waits is held against the memory.
	compareInterval = time.Minute
	// carefulFor is how long claims pass over locked rows once one has waited for such a row in vain.
	carefulFor = time.Second
	// loadTimeout bounds reading all that waits.
	loadTimeout = 20 * time.Second
)

// memory is a store's schedule, and how far it has read. One claim at a time uses it.
type memory struct {
	mu       sync.Mutex
	schedule schedule.Schedule
	// seen is the snapshot up to which the schedule knows of changes; "": it knows of nothing.
	seen string
	// Postgres' time when it was last told, and this process's when it was asked.
	told       time.Time
	askedAt    time.Time
	lookedAt   time.Time // by this process's clock
	comparedAt time.Time
	carefulTo  time.Time
	arrived    int                   // items that looks have found since a claim was asked for
	limited    map[string]int        // how many items of which namespaces the last claim was to take
	parked     map[schedule.Lane]int // how many items were parked since all that waits was last compared
}

// now is Postgres' time as far as is known. It is no earlier than it really is.
func (m *memory) now() time.Time { return m.told.Add(time.Since(m.askedAt)) }

func (m *memory) tell(now, asked time.Time) { m.told, m.askedAt = now, asked }

// head is what every row of a look and of a load says.
type head struct {
	Seen    string
	Now     time.Time
	Doubt   *time.Time
	Suspect bool
	Aging   time.Duration
	Paused  bool
}

// news is a row of a look: one thing that has changed.
type news struct {
	head
	Gap        bool
	Changed    bool
	Lane       *schedule.Lane
	Priority   *int
	Due        *time.Time
	Items      *int
	WakeNumber *int64
}

// learn takes what a look has found. It returns false where something may be missing, and what waits must be loaded.
func (m *memory) learn(rows []news, asked time.Time) (whole bool, changed map[schedule.Lane]bool) {
	if len(rows) == 0 || rows[0].Gap {
		return false, nil
	}
	changed = map[schedule.Lane]bool{}
	m.learnHead(rows[0].head, asked)
	for _, r := range rows {
		switch {
		case !r.Changed:
		case r.Lane == nil:
			m.schedule.LearnAll()
		default:
			changed[*r.Lane] = true
			c := schedule.Change{Lane: *r.Lane, Number: value(r.WakeNumber)}
			if c.Items = value(r.Items); r.Priority != nil && r.Due != nil {
				c.Waits, c.Priority, c.Due, c.Again = true, *r.Priority, *r.Due, c.Items == 0
				m.arrived += c.Items
			}
			m.schedule.Learn(c)
		}
	}
	return true, changed
}

// learnHead takes what every row of a look or a load says.
func (m *memory) learnHead(h head, asked time.Time) {
	m.seen, m.lookedAt = h.Seen, asked
	m.tell(h.Now, asked)
	m.schedule.Aging = h.Aging
	m.schedule.Pause(h.Paused)
	m.schedule.Unanswered(value(h.Doubt), h.Suspect)
}

// hear takes the payloads of notifications. It returns false where one of them says no more than that somebody is to look.
func (m *memory) hear(payloads []string) (named bool) {
	named = true
	for _, payload := range payloads {
		for name := range strings.SplitSeq(payload, ",") {
			number, change, ok := parseName(name)
			named = ok && m.schedule.Named(number, change) && named
		}
	}
	return named
}

// parseName reads what a notification says of a workspace: see sql/functions/wake.sql. Anybody may send one.
func parseName(name string) (number int64, c schedule.Change, ok bool) {
	parts := strings.Split(name, ":")
	number, err := strconv.ParseInt(parts[0], 10, 64)
	if err != nil || number == 0 {
		return 0, c, false
	}
	if len(parts) == 1 {
		return number, schedule.Change{Items: 1}, true
	}
	if len(parts) != 3 {
		return 0, c, false
	}
	priority, err := strconv.Atoi(parts[1])
	if err != nil {
		return 0, c, false
	}
	due, err := strconv.ParseInt(parts[2], 10, 64)
	if err != nil {
		return 0, c, false
	}
	return number, schedule.Change{Waits: true, Priority: priority, Due: time.UnixMicro(due)}, true
}

// look reads what has changed since the last look.
func (s *Store) look(ctx context.Context) (missed int, err error) {
	m := &s.memory
	if m.seen == "" {
		return 0, s.load(ctx)
	}
	whole, _, err := s.readChanges(ctx)
	switch {
	case err != nil:
		return 0, err
	case !whole:
		return 0, s.load(ctx)
	case m.lookedAt.Sub(m.comparedAt) > compareInterval:
		return s.compare(ctx)
	}
	return 0, nil
}

// readChanges reads and learns what has changed since the last look. See learn for what it returns.
func (s *Store) readChanges(ctx context.Context) (whole bool, changed map[schedule.Lane]bool, err error) {
	asked := time.Now()
	rows, err := read[news](ctx, s.Pool, "look for changes", sql.Look, s.memory.seen)
	if err != nil {
		return false, nil, err
	}
	whole, changed = s.memory.learn(rows, asked)
	return whole, changed, nil
}

// waiting is a row of a load.
type waiting struct {
	head
	Lane       *schedule.Lane
	Priority   *int
	Due        *time.Time
	ID         *int64
	WakeNumber int64
	Held       *int
	Limit      *int
	LanePaused *bool
	Parked     bool
}

// readWaiting reads all that waits.
func (s *Store) readWaiting(ctx context.Context) (found []waiting, all []schedule.Waiting, err error) {
	found, err = rows(ctx, s.Pool, loadTimeout, "load what waits", pgx.RowToStructByPos[waiting], sql.Load)
	if err != nil {
		return nil, nil, err
	}
	if len(found) == 0 {
		return nil, nil, errors.New("load what waits: pgdispatch.settings has no row: insert into pgdispatch.settings default values")
	}
	all = make([]schedule.Waiting, 0, len(found))
	for _, r := range found {
		if r.Lane != nil {
			all = append(all, schedule.Waiting{Lane: *r.Lane, Number: r.WakeNumber, Priority: *r.Priority,
				From: schedule.Position{Due: *r.Due, ID: *r.ID}, Held: *r.Held, Limit: *r.Limit, Paused: *r.LanePaused})
		}
	}
	return found, all, nil
}

// load forgets what is known and reads all that waits.
func (s *Store) load(ctx context.Context) error {
	m := &s.memory
	asked := time.Now()
	found, all, err := s.readWaiting(ctx)
	if err != nil {
		return err
	}
	m.schedule.Reset()
	m.learnHead(found[0].head, asked)
	m.schedule.Load(m.now(), all, nil)
	m.comparedAt = asked.Add(rand.N(compareInterval / 10)) // replicas that were started together do not compare together
	return nil
}

// compare reads all that waits and returns how many workspaces have something due that nobody had announced.
func (s *Store) compare(ctx context.Context) (missed int, err error) {
	m := &s.memory
	m.comparedAt = time.Now()
	found, all, err := s.readWaiting(ctx)
	if err != nil {
		return 0, err
	}
	// What has changed between the last look and this is no surprise: it is learned first.
	whole, changed, err := s.readChanges(ctx)
	if err != nil {
		return 0, err
	}
	if !whole {
		return 0, s.load(ctx)
	}
	for _, r := range found {
		if r.Parked {
			changed[*r.Lane] = true // it is no surprise that this waits
		}
	}
	m.parked = nil
	return m.schedule.Load(found[0].Now, all, changed), nil
}
