package claim

import (
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pgdispatch/pgdispatch/claim/schedule"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

const (
	// compareInterval is how often the memory is compared with everything that waits in the database.
	compareInterval = time.Minute
	// openFor is how long a transaction has run and written before a compare waits for its end: a scan reads every row
	// that it has enqueued, only to find that none is visible yet. compareLimit bounds the wait.
	openFor      = time.Second
	compareLimit = 10 * time.Minute
	// carefulFor is how long claims skip locked rows after one has timed out waiting for such a row.
	carefulFor = time.Second
	// loadTimeout bounds reading a page of what waits.
	loadTimeout = 20 * time.Second
	// mostArrivals is how many new items a look reads one by one. Of more, it reads a page of pageQueues key queues of
	// each transaction, and each later look reads another page: neither a look nor what the memory learns from one may
	// grow with what a transaction has enqueued. loadQueues is the size of a page while nothing is known.
	mostArrivals = 1000
	pageQueues   = 200
	loadQueues   = 10_000
)

// memory is a store's schedule and its read position. mu allows one claim at a time.
type memory struct {
	mu       sync.Mutex
	schedule schedule.Schedule
	// seen is the snapshot up to which the schedule has read changes. Empty means that it must load.
	seen string
	// epoch is when it was read: after a crash of Postgres, the transaction IDs of lost commits are used again. Nil
	// means that another replica was just beginning it.
	epoch *string
	// told is Postgres' clock in its last answer, and askedAt this process's clock when that question was sent.
	told       time.Time
	askedAt    time.Time
	clock      postgres.Clock
	lookedAt   time.Time // by this process's clock
	comparedAt time.Time
	oldest     string    // the oldest running transaction of the last look; empty: none
	oldestAt   time.Time // the first look that saw it
	carefulTo  time.Time
	setBack    bool                         // since the current claim began
	forgot     bool                         // the last load found another epoch
	drawn      int64                        // the last lease token that was drawn, as of the last claim
	arrived    int                          // items that looks have found since the current claim began
	limited    map[string]int               // Wanted.Namespaces of the last claim
	unread     []unread                     // what is to be read, a page with each look
	parked     map[schedule.WorkspaceID]int // items parked since the last compare, per workspace
	versions   versions
}

// now estimates Postgres' clock. The estimate is never behind: the elapsed time counts from before the question was
// sent.
func (m *memory) now() time.Time { return m.told.Add(time.Since(m.askedAt)) }

// tell takes Postgres' clock from an answer to a question that was sent at asked. It returns false if that clock was
// set back: the schedule waits for times that lie ahead, and must be loaded anew.
func (m *memory) tell(now, asked time.Time) (on bool) {
	m.told, m.askedAt = now, asked
	m.schedule.Tell(now)
	if m.clock.Read(now, asked, time.Now()) < 0 {
		m.setBack = true
		return false
	}
	return true
}

// head are the columns that every row of a look and of a load begins with.
type head struct {
	Seen         string
	Now          time.Time
	UnansweredAt *time.Time
	Suspect      bool
	Aging        time.Duration
	Paused       bool
}

// news is a row of a look: one change.
type news struct {
	head
	Gap        bool
	Changed    bool
	Workspace  *schedule.WorkspaceID `db:"workspace_id"`
	Priority   *int
	LimitKey   string
	LimitKeys  []string
	Due        *time.Time
	Items      *int
	WakeNumber *int64
}

// arrived reports whether the row is of items that were enqueued.
func (n news) arrived() bool { return n.Changed && n.Priority != nil && postgres.OrZero(n.Items) > 0 }

// learnt is what a look found to have changed.
type learnt struct {
	whole bool // false: changes may be missing, or the clock was set back, so that the caller must load
	schedule.Changed
	// crowded means that more arrived than a look reads: what arrived is not learnt.
	crowded bool
}

// learn applies the rows of a look.
func (m *memory) learn(rows []news, asked time.Time) (l learnt) {
	if len(rows) == 0 || rows[0].Gap {
		return l
	}
	l.Workspaces, l.Keys = map[schedule.WorkspaceID]bool{}, map[string]bool{}
	l.whole = m.learnHead(rows[0].head, asked)
	arrived := 0
	for _, r := range rows {
		if r.arrived() {
			arrived += *r.Items
		}
	}
	l.crowded = arrived >= mostArrivals
	for _, r := range rows {
		switch {
		case !r.Changed, l.crowded && r.arrived():
		case r.Workspace == nil:
			l.All = true
			m.schedule.LearnAll()
		default:
			l.Workspaces[*r.Workspace] = true
			for _, key := range r.LimitKeys {
				l.Keys[key] = true
			}
			c := schedule.Change{Workspace: *r.Workspace, Number: postgres.OrZero(r.WakeNumber), Keys: r.LimitKeys}
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

// learnHead applies the common columns of a look or a load. It returns what tell returns.
func (m *memory) learnHead(h head, asked time.Time) (on bool) {
	m.seen, m.lookedAt = h.Seen, asked
	if oldest := oldestOf(h.Seen); oldest != m.oldest {
		m.oldest, m.oldestAt = oldest, asked
	}
	on = m.tell(h.Now, asked)
	m.schedule.Aging = h.Aging
	m.schedule.Pause(h.Paused)
	m.schedule.Unanswered(postgres.OrZero(h.UnansweredAt), h.Suspect)
	return on
}

// oldestOf returns the oldest running transaction of a snapshot, xmin:xmax:running, or nothing without one.
func oldestOf(snapshot string) string {
	xmin, rest, _ := strings.Cut(snapshot, ":")
	if _, running, _ := strings.Cut(rest, ":"); running == "" {
		return ""
	}
	return xmin
}

// holdsUp reports whether a page has to wait for a transaction, as those of a compare may.
func (m *memory) holdsUp(page unread) bool {
	return page.compares() && m.oldest != "" && m.lookedAt.Sub(m.oldestAt) >= openFor &&
		m.lookedAt.Sub(m.comparedAt) < compareLimit
}

// canRead reports whether the next look may read a page.
func (m *memory) canRead(page unread) bool { return !m.holdsUp(page) }

// applyNotifications applies notification payloads. It returns false if one of them does not name a known workspace or
// a usable time, so that a look is needed.
func (m *memory) applyNotifications(payloads []string) (named bool) {
	named = true
	for _, payload := range payloads {
		for name := range strings.SplitSeq(payload, ",") {
			number, change, ok := parseName(name)
			named = ok && m.schedule.Named(number, change) && named
		}
	}
	return named
}

// parseName parses one workspace's part of a notification payload: see sql/notify/gate.sql. The payload is
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
