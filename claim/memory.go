package claim

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pgdispatch/pgdispatch/claim/schedule"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
)

const (
	// compareInterval is how often the memory is compared with everything that waits in the database.
	compareInterval = time.Minute
	// carefulFor is how long claims skip locked rows after one has timed out waiting for such a row.
	carefulFor = time.Second
	// loadTimeout bounds reading everything that waits.
	loadTimeout = 20 * time.Second
)

// memory is a store's schedule and its read position. mu allows one claim at a time.
type memory struct {
	mu       sync.Mutex
	schedule schedule.Schedule
	// seen is the snapshot up to which the schedule has read changes. Empty means that it must load.
	seen string
	// told is Postgres' clock in its last answer, and askedAt this process's clock when that question was sent.
	told       time.Time
	askedAt    time.Time
	lookedAt   time.Time // by this process's clock
	comparedAt time.Time
	carefulTo  time.Time
	drawn      int64                 // the last lease token that was drawn, as of the last claim
	arrived    int                   // items that looks have found since the current claim began
	limited    map[string]int        // Wanted.Namespaces of the last claim
	parked     map[schedule.Lane]int // items parked since the last compare, per workspace
}

// now estimates Postgres' clock. The estimate is never behind: the elapsed time counts from before the question was
// sent.
func (m *memory) now() time.Time { return m.told.Add(time.Since(m.askedAt)) }

func (m *memory) tell(now, asked time.Time) {
	m.told, m.askedAt = now, asked
	m.schedule.Tell(now)
}

// head are the columns that every row of a look and of a load begins with.
type head struct {
	Seen    string
	Now     time.Time
	Doubt   *time.Time
	Suspect bool
	Aging   time.Duration
	Paused  bool
}

// news is a row of a look: one change.
type news struct {
	head
	Gap        bool
	Changed    bool
	Lane       *schedule.Lane `db:"workspace_id"`
	Priority   *int
	LimitKey   string
	LimitKeys  []string
	Due        *time.Time
	Items      *int
	WakeNumber *int64
}

// learnt is what a look found to have changed.
type learnt struct {
	whole  bool // false: changes may be missing, so that the caller must load
	limits bool // the limits of any workspace
	lanes  map[schedule.Lane]bool
}

// learn applies the rows of a look.
func (m *memory) learn(rows []news, asked time.Time) (l learnt) {
	if len(rows) == 0 || rows[0].Gap {
		return l
	}
	l.whole, l.lanes = true, map[schedule.Lane]bool{}
	m.learnHead(rows[0].head, asked)
	for _, r := range rows {
		switch {
		case !r.Changed:
		case r.Lane == nil:
			l.limits = true
			m.schedule.LearnAll()
		default:
			l.lanes[*r.Lane] = true
			c := schedule.Change{Lane: *r.Lane, Number: postgres.OrZero(r.WakeNumber), Keys: r.LimitKeys}
			if c.Items = postgres.OrZero(r.Items); r.Priority != nil && r.Due != nil {
				c.Key = r.LimitKey
				c.Waits, c.Priority, c.Due, c.Again = true, *r.Priority, *r.Due, c.Items == 0
				m.arrived += c.Items
			}
			m.schedule.Learn(c)
		}
	}
	return l
}

// learnHead applies the common columns of a look or a load.
func (m *memory) learnHead(h head, asked time.Time) {
	m.seen, m.lookedAt = h.Seen, asked
	m.tell(h.Now, asked)
	m.schedule.Aging = h.Aging
	m.schedule.Pause(h.Paused)
	m.schedule.Unanswered(postgres.OrZero(h.Doubt), h.Suspect)
}

// hear applies notification payloads. It returns false if one of them does not name a known workspace or a usable
// time, so that a look is needed.
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

// parseName parses one workspace's part of a notification payload: see sql/functions/wake.sql. The payload is
// untrusted: any session can notify.
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

// look reads the changes since the last look. It loads everything if changes may be missing, and compares everything
// once per compareInterval. See compare for what it returns.
func (s *Store) look(ctx context.Context) (missed int, err error) {
	m := &s.memory
	if m.seen == "" {
		return 0, s.load(ctx)
	}
	changed, err := s.readChanges(ctx)
	switch {
	case err != nil:
		return 0, err
	case !changed.whole:
		return 0, s.load(ctx)
	case m.lookedAt.Sub(m.comparedAt) > compareInterval:
		return s.compare(ctx)
	}
	return 0, nil
}

// readChanges reads and applies the changes since the last look.
func (s *Store) readChanges(ctx context.Context) (changed learnt, err error) {
	asked := time.Now()
	rows, err := postgres.Read[news](ctx, s.Pool, "read changes", sql.Text("look"), s.memory.seen)
	if err != nil {
		return changed, err
	}
	return s.memory.learn(rows, asked), nil
}

// waiting is a row of a load.
type waiting struct {
	head
	Lane       *schedule.Lane `db:"workspace_id"`
	Priority   *int
	LimitKey   string
	Due        *time.Time `db:"run_at"`
	ID         *int64
	WakeNumber int64
	Held       *int
	Limit      *int `db:"slots"`
	Most       *int
	LanePaused *bool
	Parked     bool
	OwnFull    bool
	AllFull    bool
}

// readWaiting reads everything that waits.
func (s *Store) readWaiting(ctx context.Context) (found []waiting, all []schedule.Waiting, err error) {
	found, err = postgres.ReadWithin[waiting](ctx, loadTimeout, s.Pool, "load waiting items", sql.Text("load"))
	if err != nil {
		return nil, nil, err
	}
	if len(found) == 0 {
		return nil, nil, errors.New(
			"load waiting items: pgdispatch.settings has no row: run `insert into pgdispatch.settings default values`")
	}
	all = make([]schedule.Waiting, 0, len(found))
	for _, r := range found {
		if r.Lane != nil {
			all = append(all, schedule.Waiting{Lane: *r.Lane, Number: r.WakeNumber, Priority: *r.Priority,
				Key: r.LimitKey, From: schedule.Position{Due: *r.Due, ID: *r.ID}, Held: *r.Held, Limit: *r.Limit, Most: *r.Most,
				Paused: *r.LanePaused, OwnFull: r.OwnFull, AllFull: r.AllFull})
		}
	}
	return found, all, nil
}

// load resets the schedule and reads everything that waits.
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
	m.comparedAt = asked.Add(rand.N(compareInterval / 10)) // jitter: replicas that start together do not compare together
	return nil
}

// compare reads everything that waits, corrects the schedule, and returns the number of workspaces with due items that
// no notification or look had reported.
func (s *Store) compare(ctx context.Context) (missed int, err error) {
	s.memory.comparedAt = time.Now()
	found, all, err := s.readWaiting(ctx)
	if err != nil {
		return 0, err
	}
	return s.correct(ctx, found, all)
}

// correct compares the schedule with what waited a moment ago. See compare for what it returns.
func (s *Store) correct(ctx context.Context, found []waiting, all []schedule.Waiting) (missed int, err error) {
	m := &s.memory
	// Changes since the last look do not count as missed: read them first. They are newer than what was read, so it must
	// not close a workspace that they opened.
	changed, err := s.readChanges(ctx)
	if err != nil {
		return 0, err
	}
	if !changed.whole {
		return 0, s.load(ctx)
	}
	for _, r := range found {
		if r.Lane != nil && (r.Parked || changed.limits) {
			changed.lanes[*r.Lane] = true // a parked item does not count as missed
		}
	}
	m.parked = nil
	return m.schedule.Load(found[0].Now, all, changed.lanes), nil
}
