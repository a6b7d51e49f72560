package lab

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/test/failover/internal/audit"
	"github.com/pgdispatch/pgdispatch/test/failover/internal/cluster"
)

const (
	// writers is how many sessions insert, each into a workspace of its own.
	writers = 8
	// writeTimeout is how long an application waits for one insert, or to connect, before it tries another session.
	writeTimeout = 5 * time.Second
	// reconnectInterval is the pause after a failed insert.
	reconnectInterval = 50 * time.Millisecond
)

// Writer is an application that inserts items steadily and keeps books. Each of its sessions inserts one item at a
// time.
type Writer struct {
	url    string
	tasks  []task
	each   time.Duration // the interval of one session's inserts
	cancel context.CancelFunc
	group  sync.WaitGroup

	mu     sync.Mutex
	writes []audit.Write
	last   error
}

// task is where one session inserts.
type task struct{ workspace, definition string }

// startWriter starts a writer at the database's URL, which is that of the proxy, of the given number of items a second.
func startWriter(ctx context.Context, url string, tasks []task, rate float64) *Writer {
	w := &Writer{url: url, tasks: tasks, each: time.Duration(float64(len(tasks)) / rate * float64(time.Second))}
	ctx, w.cancel = context.WithCancel(ctx)
	for _, t := range tasks {
		w.group.Go(func() { w.insertSteadily(ctx, t) })
	}
	return w
}

// Stop stops it and returns its books.
func (w *Writer) Stop() []audit.Write {
	w.cancel()
	w.group.Wait()
	return w.writes
}

// AwaitAcknowledged waits until as many inserts of the given time and later are acknowledged.
func (w *Writer) AwaitAcknowledged(ctx context.Context, since time.Time, inserts int) error {
	return cluster.Await(ctx, patience, "inserts are acknowledged", func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		n := 0
		for i := len(w.writes) - 1; i >= 0 && n < inserts && w.writes[i].Sent.After(since); i-- {
			if !w.writes[i].Acknowledged.IsZero() {
				n++
			}
		}
		if n < inserts {
			return errors.Join(fmt.Errorf("%d of %d are", n, inserts), w.last)
		}
		return nil
	})
}

func (w *Writer) insertSteadily(ctx context.Context, t task) {
	tick := time.NewTicker(w.each)
	defer tick.Stop()
	var conn *pgx.Conn
	for {
		select {
		case <-ctx.Done():
			if conn != nil {
				_ = conn.Close(context.Background())
			}
			return
		case <-tick.C:
		}

		var err error
		if conn, err = w.insert(conn, t); err != nil {
			w.note(err)
			time.Sleep(reconnectInterval)
		}
	}
}

// insert inserts one item and returns the session to insert the next one with, which is nil after an error. It ends
// what it has begun even if the writer is stopped.
func (w *Writer) insert(conn *pgx.Conn, t task) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	if conn == nil {
		var err error
		if conn, err = pgx.Connect(ctx, w.url); err != nil {
			return nil, err
		}
	}

	write := audit.Write{Execution: uuid.NewString(), Sent: time.Now()}
	_, err := conn.Exec(ctx, query("enqueue"), t.workspace, t.definition, write.Execution)
	if err == nil {
		write.Acknowledged = time.Now()
	}
	w.mu.Lock()
	w.writes = append(w.writes, write)
	w.mu.Unlock()
	if err != nil {
		_ = conn.Close(ctx)
		return nil, err
	}
	return conn, nil
}

func (w *Writer) note(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = err
}
