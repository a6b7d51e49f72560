package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/postgres"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/process"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/proxy"
)

const (
	// readyTimeout bounds the wait until a started replica listens.
	readyTimeout = 20 * time.Second
	// readyInterval is how often its log is read meanwhile.
	readyInterval = 10 * time.Millisecond
	// stopTimeout is how long a replica may take to exit after SIGTERM: its drain timeout plus the documented extra
	// time.
	stopTimeout = DrainTimeout + 5*time.Second
)

// Replica is one pgdispatch with its own proxy for each server that it talks to.
type Replica struct {
	// N is its number, from 0.
	N int
	// Postgres stands between the replica and the database. Temporal stands between the replica and Frontend, and
	// Frontend between Temporal and the server.
	Postgres, Temporal *proxy.TCP
	Frontend           *proxy.Frontend

	// Env is appended to its environment from its next start on, and so overrides the other variables.
	Env []string

	lab *Lab

	mu      sync.Mutex
	process *process.Process
	starts  int
}

func newReplica(l *Lab, n int) (*Replica, error) {
	r := &Replica{N: n, lab: l}
	var err error
	if r.Frontend, err = proxy.NewFrontend(l.Temporal.Address()); err != nil {
		return nil, err
	}
	if r.Temporal, err = proxy.NewTCP(r.Frontend.Address); err != nil {
		return nil, err
	}
	r.Postgres, err = proxy.NewTCP(l.Primary().Address())
	return r, err
}

func (r *Replica) close() error {
	err := r.Kill()
	for _, p := range []*proxy.TCP{r.Postgres, r.Temporal} {
		if p != nil {
			err = errors.Join(err, p.Close())
		}
	}
	if r.Frontend != nil {
		err = errors.Join(err, r.Frontend.Close())
	}
	return err
}

// Start starts the process if it is not running, and does not wait for it.
func (r *Replica) Start() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process != nil && r.process.Running() {
		return nil
	}
	r.starts++
	env := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "PG") || strings.HasPrefix(variable, "TEMPORAL_") || strings.HasPrefix(variable, "DATABASE_URL=")
	})
	env = append(env,
		"DATABASE_URL="+postgres.URL(r.Postgres.Address, Database), "TEMPORAL_ADDRESS="+r.Temporal.Address, "TEMPORAL_NAMESPACE=default",
		"PGDISPATCH_WORKERS="+strconv.Itoa(Workers), "PGDISPATCH_LEASE="+Lease.String(), "PGDISPATCH_POLL_INTERVAL="+PollInterval.String(),
		"PGDISPATCH_START_TIMEOUT="+StartTimeout.String(), "PGDISPATCH_DRAIN_TIMEOUT="+DrainTimeout.String(), "GOTRACEBACK=all", "PGDISPATCH_FAILPOINTS="+r.lab.Dir)
	env = append(env, r.Env...)
	var err error
	r.process, err = process.Start(process.Spec{Name: fmt.Sprintf("replica %d", r.N), Program: r.lab.options.Pgdispatch, Args: []string{"run"},
		Env: env, LogPath: filepath.Join(r.lab.Dir, fmt.Sprintf("replica-%d-%d.log", r.N, r.starts))})
	return err
}

// Ready waits until the replica listens.
func (r *Replica) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("replica %d did not listen within %s", r.N, readyTimeout))
	defer cancel()
	p := r.Process()
	for {
		log, err := os.ReadFile(p.LogPath)
		if err != nil {
			return fmt.Errorf("read log of replica %d: %w", r.N, err)
		}
		if strings.Contains(string(log), `"msg":"Listening"`) || strings.Contains(string(log), `"listen":false`) {
			return nil
		}
		select {
		case <-p.Exited():
			return fmt.Errorf("start replica %d: it ended\n%s", r.N, p.Tail())
		case <-ctx.Done():
			return fmt.Errorf("%w\n%s", context.Cause(ctx), p.Tail())
		case <-time.After(readyInterval):
		}
	}
}

// Process returns the running process, or the last one.
func (r *Replica) Process() *process.Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.process
}

// PID returns the process ID, which identifies the replica's leases.
func (r *Replica) PID() string { return strconv.Itoa(r.Process().PID) }

// Kill kills the process with SIGKILL.
func (r *Replica) Kill() error {
	if p := r.Process(); p != nil {
		return p.Kill()
	}
	return nil
}

// Stop sends SIGTERM and returns how long the process took to exit. It is an error if the process has to be killed or
// exits with a non-zero status.
func (r *Replica) Stop() (time.Duration, error) {
	p, began := r.Process(), time.Now()
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return 0, err
	}
	if !p.EndsWithin(stopTimeout) {
		return 0, errors.Join(fmt.Errorf("replica %d is still there %s after SIGTERM\n%s", r.N, stopTimeout, p.Tail()), p.Kill())
	}
	if code := p.ExitCode(); code != 0 {
		return 0, fmt.Errorf("replica %d ended with %d after SIGTERM\n%s", r.N, code, p.Tail())
	}
	return time.Since(began), nil
}

// Heal makes its proxies forward everything.
func (r *Replica) Heal() {
	r.Postgres.Set(proxy.Policy{})
	r.Temporal.Set(proxy.Policy{})
	r.Frontend.Set(proxy.Rule{})
}

// StallHeartbeat makes only the replica's heartbeats hang, or lets them continue.
func (r *Replica) StallHeartbeat(stall bool) error {
	path := filepath.Join(r.lab.Dir, "stall-heartbeat-"+r.PID())
	if stall {
		return os.WriteFile(path, nil, 0o644)
	}
	return os.Remove(path)
}

// refuseTemporal makes Temporal's address refuse connections, for all replicas.
func (l *Lab) refuseTemporal(refuse bool) {
	for _, r := range l.Replicas {
		r.Temporal.Set(proxy.Policy{Refuse: refuse})
	}
}
