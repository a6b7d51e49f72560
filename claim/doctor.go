package claim

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/sql"
)

// doctorChannel is the one that Hear listens on. Its name stands in doctor_listen.sql too.
const doctorChannel = "pgdispatch_doctor"

// Server is what the server, the database and the role of this session are like.
type Server struct {
	Version            int // such as 180001
	VersionText        string
	Encoding           string
	Role               string
	SeesAll            bool // the role sees what other roles' sessions do
	Now                time.Time
	NotifyUsage        float64 // of the NOTIFY queue, 0 to 1
	Connections        int64
	ConnectionsAllowed int               // of ordinary roles
	Settings           map[string]string // timeouts in milliseconds
	// NotifyHolder may keep the NOTIFY queue from being emptied. It is looked for where NotifyUsage is NotifyBound or more.
	NotifyHolder *Holder `db:"-"`
}

// Server reads them.
func (s *Store) Server(ctx context.Context) (Server, error) {
	servers, err := read[Server](ctx, s.Pool, "read the server's settings", sql.DoctorServer)
	if err != nil || len(servers) == 0 {
		return Server{}, err
	}
	server := servers[0]
	if server.NotifyUsage >= NotifyBound {
		server.NotifyHolder, err = s.NotifyHolder(ctx)
	}
	return server, err
}

// Override is a setting that a role or a database was given for good.
type Override struct{ Role, Scope, Setting string }

// Overrides reads those that would harm.
func (s *Store) Overrides(ctx context.Context) ([]Override, error) {
	return read[Override](ctx, s.Pool, "read settings of roles", sql.DoctorOverrides)
}

// Role is the role of this session, as far as it matters to a replica.
type Role struct {
	Name             string
	Superuser, Owner bool
	Operator         bool     // or more
	GroupsExist      bool     // pgdispatch_owner, and so on
	Lacks            []string // privileges of pgdispatch_dispatcher
}

// Role reads it.
func (s *Store) Role(ctx context.Context) ([]Role, error) {
	return read[Role](ctx, s.Pool, "read the role's privileges", sql.DoctorRole)
}

// Defect is something of the schema that is not as it should be.
type Defect struct{ Name, Problem string }

// BadTriggers reads triggers that are missing or do not fire.
func (s *Store) BadTriggers(ctx context.Context) ([]Defect, error) {
	return read[Defect](ctx, s.Pool, "read triggers", sql.DoctorTriggers)
}

// BadTables reads tables that have lost the settings which keep them small.
func (s *Store) BadTables(ctx context.Context) ([]Defect, error) {
	return read[Defect](ctx, s.Pool, "read settings of tables", sql.DoctorTables)
}

// Pin is something that keeps vacuum from removing dead rows.
type Pin struct {
	Kind, Name, Detail string
	Age                *time.Duration // nil: nobody knows
}

// Pins reads those that are at least so old.
func (s *Store) Pins(ctx context.Context, long time.Duration) ([]Pin, error) {
	return read[Pin](ctx, s.Pool, "read old transactions", sql.DoctorHorizon, long)
}

// KnownReplica is one that lives or has ended without a farewell.
type KnownReplica struct {
	ID       string
	DeadFor  time.Duration // negative: it lives
	Leased   int64
	Watching int64
	// Namespace is where it starts workflows whose definition names none; "": an earlier version, which does not say.
	Namespace string
}

// KnownReplicas reads them, the oldest first.
func (s *Store) KnownReplicas(ctx context.Context) ([]KnownReplica, error) {
	return read[KnownReplica](ctx, s.Pool, "read replicas", sql.DoctorReplicas)
}

// TaskQueue is one that definitions name.
type TaskQueue struct {
	Namespace      string // "": the replicas'
	Name           string
	Definitions    int64
	MaxAttempts    int
	WithoutVersion int64 // definitions that cannot be started
}

// TaskQueues reads them, that of the most definitions first.
func (s *Store) TaskQueues(ctx context.Context) ([]TaskQueue, error) {
	return read[TaskQueue](ctx, s.Pool, "read task queues", sql.DoctorDefinitions)
}

// ListenSession is a connection that is to listen.
type ListenSession struct {
	TCPUserTimeout int // in milliseconds; 0: the server keeps a stopped listener for ever
	OverTCP        bool
}

// Hear sends a notification to a connection of its own, and returns what that is like and how long it took to hear it. An
// error that is the context's own: nothing was heard.
func (s *Store) Hear(ctx context.Context, listener *pgx.Conn, token string) (ListenSession, time.Duration, error) {
	sessions, err := read[ListenSession](ctx, listener, "read the listener's settings", sql.DoctorSession)
	if err != nil || len(sessions) == 0 {
		return ListenSession{}, 0, err
	}
	if err := exec(ctx, listener, settleTimeout, "listen", sql.DoctorListen); err != nil {
		return sessions[0], 0, err
	}
	sent := time.Now()
	if err := s.Ping(ctx, doctorChannel, token); err != nil {
		return sessions[0], 0, err
	}
	for {
		heard, err := listener.WaitForNotification(ctx)
		if err != nil {
			return sessions[0], 0, fmt.Errorf("hear a notification: %w", err)
		}
		if heard.Payload == token {
			return sessions[0], time.Since(sent), nil
		}
	}
}
