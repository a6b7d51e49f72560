package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/internal/temporal"
	"github.com/pgdispatch/pgdispatch/notify"
	"github.com/pgdispatch/pgdispatch/sql"
)

// doctorChannel is the channel that Hear listens on. Keep it in sync with doctor_listen.sql.
const doctorChannel = "pgdispatch_doctor"

// Server describes the server, the database and the role of this session.
type Server struct {
	Version            int // such as 180001
	VersionText        string
	Encoding           string
	Role               string
	SeesAll            bool // whether the role can see the activity of other roles' sessions
	Now                time.Time
	NotifyUsage        float64 // used fraction of the NOTIFY queue, 0 to 1
	Connections        int64
	ConnectionsAllowed int // for ordinary roles
	// The limits of this session's role and of the database, unless there are none or they do not hold for the role.
	RoleAllowed, DatabaseAllowed         *int
	RoleConnections, DatabaseConnections int64
	Settings                             map[string]string // timeouts in milliseconds
	// NotifyHolder is the session that keeps the NOTIFY queue from being emptied, if this role can tell. It is read only
	// if NotifyUsage is notify.QueueBound or more.
	NotifyHolder *notify.Holder `db:"-"`
}

// Server returns the properties of the server, the database and the role.
func (s *Store) Server(ctx context.Context) (Server, error) {
	server, err := postgres.Row[Server](ctx, s.DB, "read the server's settings", sql.Text("doctor_server"))
	if err == nil && server.NotifyUsage >= notify.QueueBound {
		server.NotifyHolder, err = notify.QueueHolder(ctx, s.DB)
	}
	return server, err
}

// Override is a setting stored for a role or a database, as by ALTER ROLE SET.
type Override struct{ Role, Scope, Setting string }

// Overrides returns the harmful overrides.
func (s *Store) Overrides(ctx context.Context) ([]Override, error) {
	return postgres.Read[Override](ctx, s.DB, "read settings of roles", sql.Text("doctor_overrides"))
}

// Role is the role of this session: what matters to a replica.
type Role struct {
	Name             string
	Superuser, Owner bool
	Operator         bool     // whether it has the privileges of pgdispatch_operator
	GroupsExist      bool     // whether pgdispatch_owner and the other group roles exist
	Lacks            []string // missing privileges of pgdispatch_dispatcher
}

// Role returns the role of this session, as at most one row.
func (s *Store) Role(ctx context.Context) ([]Role, error) {
	return postgres.Read[Role](ctx, s.DB, "read the role's privileges", sql.Text("doctor_role"))
}

// Fitness is what decides whether a replica with this session's role may work with this database.
type Fitness struct {
	Hidden       []string // tables of which row level security may hide rows
	Role         string
	TriggersFire bool
	Copied       bool   // the database was bound to another installation
	BoundTo      string // the name of the database then
	BoundAt      *time.Time
}

// Fitness returns one row.
func (s *Store) Fitness(ctx context.Context) ([]Fitness, error) {
	return postgres.Read[Fitness](ctx, s.DB, "read the installation", sql.Text("doctor_fitness"))
}

// AdoptDatabase binds the database to the installation that it is in, so that replicas work with it. It returns the
// name of the database that it was bound to, or "".
func (s *Store) AdoptDatabase(ctx context.Context, who string) (from string, err error) {
	return postgres.Value[string](ctx, s.DB, "adopt the database", sql.Text("adopt_database"), who)
}

// SchemaDefect is a part of the schema that is missing or wrong.
type SchemaDefect = sql.Object

// BadObjects returns the parts of the schema that are missing or differ from what this version needs.
func (s *Store) BadObjects(ctx context.Context) ([]SchemaDefect, error) {
	found, err := postgres.Read[sql.Object](ctx, s.DB, "read the catalogue", sql.Text("doctor_catalogue"))
	if err != nil {
		return nil, err
	}
	return sql.Defects(found), nil
}

// Behind is a sequence that is behind what its table has.
type Behind struct {
	Name    string
	Highest int64
}

// SequencesBehind returns the sequences that are behind what their tables have.
func (s *Store) SequencesBehind(ctx context.Context) ([]Behind, error) {
	return postgres.Read[Behind](ctx, s.DB, "read sequences", sql.Text("doctor_sequences"))
}

// Pin is something that keeps vacuum from removing dead rows.
type Pin struct {
	Kind, Name, Detail string
	Age                *time.Duration // nil if unknown
}

// Pins returns sessions and prepared transactions that are older than long, unused replication slots of any age, and
// used ones and standbys that are more than far transactions behind.
func (s *Store) Pins(ctx context.Context, long time.Duration, far int64) ([]Pin, error) {
	return postgres.Read[Pin](ctx, s.DB, "read old transactions", sql.Text("doctor_horizon"), long, far)
}

// KnownReplica is a replica that is alive or that ended without calling Gone.
type KnownReplica struct {
	ID       string
	DeadFor  time.Duration // negative if it is alive
	Leased   int64
	Watching int64
	// Namespace is where it starts workflows whose definition names none. Empty if it is an earlier version, which does
	// not report it.
	Namespace string
}

// KnownReplicas returns the known replicas, the oldest first.
func (s *Store) KnownReplicas(ctx context.Context) ([]KnownReplica, error) {
	return postgres.Read[KnownReplica](ctx, s.DB, "read replicas", sql.Text("doctor_replicas"))
}

// TaskQueue is a task queue that definitions of one kind name.
type TaskQueue struct {
	Namespace      string // empty means the replicas'
	Name           string
	Kind           temporal.Kind // of these definitions
	Definitions    int64
	MaxAttempts    int   // the highest of these definitions
	WithoutVersion int64 // definitions without a version, which cannot be started
}

// TaskQueues returns the task queues, those with the most definitions first.
func (s *Store) TaskQueues(ctx context.Context) ([]TaskQueue, error) {
	return postgres.Read[TaskQueue](ctx, s.DB, "read task queues", sql.Text("doctor_definitions"))
}

// ListenSession describes a connection for LISTEN.
type ListenSession struct {
	TCPUserTimeout int // in milliseconds; if zero, the server keeps the session of a stopped listener forever
	OverTCP        bool
}

// Hear listens on listener, sends a notification with token as its payload, and returns the properties of the
// listener's session and the time from sending to receiving. An error that wraps the context's error means that the
// notification did not arrive in time.
func (s *Store) Hear(ctx context.Context, listener *pgx.Conn, token string) (ListenSession, time.Duration, error) {
	session, err := postgres.Row[ListenSession](ctx, listener, "read the listener's settings", sql.Text("doctor_session"))
	if err == nil {
		err = postgres.Exec(ctx, listener, "listen", sql.Text("doctor_listen"))
	}
	sent := time.Now()
	if err == nil {
		err = (&notify.PoolPinger{DB: s.DB}).Ping(ctx, doctorChannel, token)
	}
	for err == nil {
		var heard *pgconn.Notification
		if heard, err = listener.WaitForNotification(ctx); err == nil && heard.Payload == token {
			return session, time.Since(sent), nil
		}
	}
	return session, 0, fmt.Errorf("hear a notification: %w", err)
}

// judgedLimits is how many limits doctor judges, the oldest.
const judgedLimits = 1000

// LimitFacts is what doctor judges a limit by.
type LimitFacts struct {
	KeyLimit
	WorkspaceMax *int // how many items its workspace may run in a burst; nil: a limit over all workspaces
	Waits        bool // whether an item with the key waits, among 10,000 of them
}

// LimitFacts returns the facts of the first 1,000 limits.
func (s *Store) LimitFacts(ctx context.Context) ([]LimitFacts, error) {
	limits, err := s.KeyLimits(ctx, KeyLimitFilter{}, judgedLimits)
	if err != nil || len(limits) == 0 {
		return nil, err
	}
	type found struct {
		ID           int64
		WorkspaceMax *int
		Waits        bool
	}
	rows, err := postgres.Read[found](ctx, s.DB, "read limits", sql.Text("doctor_limits"), judgedLimits, depthLimit)
	of := map[int64]found{}
	for _, row := range rows {
		of[row.ID] = row
	}
	facts := make([]LimitFacts, len(limits))
	for n, l := range limits {
		facts[n] = LimitFacts{l, of[l.ID].WorkspaceMax, of[l.ID].Waits}
	}
	return facts, err
}
