package scenario

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"golang.org/x/sync/errgroup"

	"github.com/pgdispatch/pgdispatch/test/bench/internal/entrant"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/frontend"
	"github.com/pgdispatch/pgdispatch/test/bench/internal/lab"
)

// Team is a workspace and its only definition.
type Team struct{ Workspace, Definition string }

// Sent is an enqueued item.
type Sent struct {
	WorkflowID string
	Due        time.Time // when it was planned to be sent; zero without a plan
	Began      time.Time // before the INSERT was sent
	Committing time.Time // before the commit was sent; equals Began if the INSERT commits by itself
	Done       time.Time // when the answer to the commit arrived
}

// Insert enqueues one item in a transaction of its own.
type Insert func(ctx context.Context, conn *pgx.Conn, team Team) (Sent, error)

// Alone inserts with a single statement that commits by itself.
func Alone(statement string) Insert {
	statement = lab.Query(statement)
	return func(ctx context.Context, conn *pgx.Conn, team Team) (Sent, error) {
		began := time.Now()
		var execution string
		err := conn.QueryRow(ctx, statement, team.Workspace, team.Definition, lab.Params).Scan(&execution)
		if err != nil {
			return Sent{}, fmt.Errorf("enqueue: %w", err)
		}
		return Sent{WorkflowID: "execution-" + execution, Began: began, Committing: began, Done: time.Now()}, nil
	}
}

// Within inserts with the same statement between a begin and a commit, like an application that writes more in the
// transaction.
func Within(statement string) Insert {
	alone := Alone(statement)
	return func(ctx context.Context, conn *pgx.Conn, team Team) (sent Sent, err error) {
		err = inTransaction(ctx, conn, &sent, func(tx pgx.Tx) error {
			sent, err = alone(ctx, tx.Conn(), team)
			return err
		})
		return sent, err
	}
}

// ByRiver inserts with River's client, which requires a transaction.
func ByRiver(client *river.Client[pgx.Tx]) Insert {
	return func(ctx context.Context, conn *pgx.Conn, team Team) (sent Sent, err error) {
		execution := uuid.NewString()
		sent.WorkflowID = "execution-" + execution
		err = inTransaction(ctx, conn, &sent, func(tx pgx.Tx) error {
			sent.Began = time.Now()
			_, err := client.InsertTx(ctx, tx,
				entrant.OrderArgs{Execution: execution, Workspace: team.Workspace, Definition: team.Definition,
					Params: []byte(lab.Params)}, nil)
			return err
		})
		return sent, err
	}
}

func inTransaction(ctx context.Context, conn *pgx.Conn, sent *Sent, do func(pgx.Tx) error) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := do(tx); err != nil {
		_ = tx.Rollback(ctx) // the first error is the one to report
		return err
	}
	sent.Committing = time.Now()
	if err := tx.Commit(ctx); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	sent.Done = time.Now()
	return nil
}

// Teams reads the workspaces of a database made from the Ours template.
func Teams(ctx context.Context, pool *pgxpool.Pool) ([]Team, error) {
	rows, err := pool.Query(ctx, lab.Query("teams"))
	if err != nil {
		return nil, fmt.Errorf("read workspaces: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Team])
}

// AddTeams adds workspaces with a limit, and returns them.
func AddTeams(ctx context.Context, pool *pgxpool.Pool, name string, count, limit int) ([]Team, error) {
	rows, err := pool.Query(ctx, lab.Query("workspaces"), count, limit, name)
	if err != nil {
		return nil, fmt.Errorf("add workspaces: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[Team])
}

// Load is a number of writers, each on its own connection.
type Load struct {
	Pool    *pgxpool.Pool
	Insert  Insert
	Teams   []Team
	Writers int
}

// each runs write concurrently for every writer, and collects what they sent.
func (l *Load) each(
	ctx context.Context, write func(ctx context.Context, conn *pgx.Conn, writer int) ([]Sent, error),
) ([]Sent, error) {
	g, ctx := errgroup.WithContext(ctx)
	sent := make([][]Sent, l.Writers)
	for writer := range l.Writers {
		g.Go(func() error {
			conn, err := l.Pool.Acquire(ctx)
			if err != nil {
				return fmt.Errorf("connect: %w", err)
			}
			defer conn.Release()
			sent[writer], err = write(ctx, conn.Conn(), writer)
			return err
		})
	}
	err := g.Wait()
	var all []Sent
	for _, s := range sent {
		all = append(all, s...)
	}
	return all, err
}

func (l *Load) team(n int) Team {
	if len(l.Teams) == 0 {
		return Team{uuid.Nil.String(), uuid.Nil.String()}
	}
	return l.Teams[n%len(l.Teams)]
}

// Flood inserts as fast as the writers can, and returns the number of commits per second that were answered after the
// warm-up.
func (l *Load) Flood(ctx context.Context, warmUp, duration time.Duration) (perSecond float64, all []Sent, err error) {
	began := time.Now()
	from, until := began.Add(warmUp), began.Add(warmUp+duration)
	all, err = l.each(ctx, func(ctx context.Context, conn *pgx.Conn, writer int) (sent []Sent, err error) {
		for n := writer; time.Now().Before(until); n++ {
			s, err := l.Insert(ctx, conn, l.team(n))
			if err != nil {
				return sent, err
			}
			sent = append(sent, s)
		}
		return sent, nil
	})
	counted := 0
	for _, s := range all {
		if s.Done.After(from) && s.Done.Before(until) {
			counted++
		}
	}
	return float64(counted) / duration.Seconds(), all, err
}

// Paced inserts at a rate that the writers share evenly. Each item is due up to a quarter of a gap before or after its
// turn, so that gaps are 0.5 to 1.5 of the mean. A late writer continues at once: the plan does not wait for the
// database. All writers give up at twice the planned time.
func (l *Load) Paced(ctx context.Context, rate float64, duration time.Duration) ([]Sent, error) {
	gap := time.Duration(float64(l.Writers) / rate * float64(time.Second))
	count := int(rate * duration.Seconds() / float64(l.Writers))
	began := time.Now()
	return l.each(ctx, func(ctx context.Context, conn *pgx.Conn, writer int) (sent []Sent, err error) {
		turn := began.Add(gap/4 + time.Duration(rand.Int64N(int64(gap))))
		for n := range count {
			due := turn.Add(time.Duration(n)*gap - gap/4 + time.Duration(rand.Int64N(int64(gap)/2)))
			if err := sleepUntil(ctx, due); err != nil {
				return sent, err
			}
			if time.Since(began) > 2*duration {
				return sent, nil
			}
			s, err := l.Insert(ctx, conn, l.team(writer+n))
			if err != nil {
				return sent, err
			}
			s.Due = due
			sent = append(sent, s)
		}
		return sent, nil
	})
}

// Rate returns the achieved rate in items per second, from the first to the last answer.
func Rate(sent []Sent) float64 {
	if len(sent) < 2 {
		return 0
	}
	first, last := sent[0].Done, sent[0].Done
	for _, s := range sent {
		if s.Done.Before(first) {
			first = s.Done
		}
		if s.Done.After(last) {
			last = s.Done
		}
	}
	return float64(len(sent)-1) / last.Sub(first).Seconds()
}

func sleepUntil(ctx context.Context, at time.Time) error {
	wait := time.Until(at)
	if wait <= 0 {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// startsWithin bounds the wait for the last start once all items are enqueued.
const startsWithin = time.Minute

// Latencies waits for every item's start and returns how long each took: from before the INSERT, and from before the
// commit. It is an error if an item is not started in time.
func Latencies(
	ctx context.Context, server *frontend.Server, sent []Sent,
) (fromInsert, fromCommit []time.Duration, err error) {
	fromInsert, fromCommit, late, err := latencies(ctx, server, sent)
	if err == nil && late > 0 {
		err = fmt.Errorf("%d of %d items were not started within %s of the last insert", late, len(sent), startsWithin)
	}
	return fromInsert, fromCommit, err
}

// latencies is Latencies for loads that may exceed a contestant's capacity. Items that are not started in time are
// counted as late, and their latency is taken to be the time waited so far, which understates it.
func latencies(
	ctx context.Context, server *frontend.Server, sent []Sent,
) (fromInsert, fromCommit []time.Duration, late int, err error) {
	patient, cancel := context.WithTimeout(ctx, startsWithin)
	defer cancel()
	for _, s := range sent {
		at, err := server.Await(patient, s.WorkflowID)
		if err != nil {
			if ctx.Err() != nil {
				return nil, nil, 0, err
			}
			at, late = time.Now(), late+1
		}
		fromInsert = append(fromInsert, at.Sub(s.Began))
		fromCommit = append(fromCommit, at.Sub(s.Committing))
	}
	return fromInsert, fromCommit, late, nil
}

// repeatable uses one snapshot from the first statement to the end of the transaction.
var repeatable = pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
