package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/process"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/postgres"
	"github.com/pgdispatch/pgdispatch/test/internal/proxy"
	"github.com/pgdispatch/pgdispatch/test/internal/stack"
)

const (
	// readyTimeout bounds the wait until a started replica listens.
	readyTimeout = 20 * time.Second
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
	if r.Frontend, err = proxy.NewFrontend(l.Temporal.Address(), &proxy.Steps{}); err != nil {
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
	env := []string{
		"PGDISPATCH_WORKERS=" + strconv.Itoa(Workers), "PGDISPATCH_LEASE=" + Lease.String(),
		"PGDISPATCH_POLL_INTERVAL=" + PollInterval.String(), "PGDISPATCH_START_TIMEOUT=" + StartTimeout.String(),
		"PGDISPATCH_DRAIN_TIMEOUT=" + DrainTimeout.String(), "PGDISPATCH_FAILPOINTS=" + r.lab.Dir, "GOTRACEBACK=all",
	}
	var err error
	r.process, err = stack.Replica{
		Name: fmt.Sprintf("replica %d", r.N), Binary: r.lab.options.Pgdispatch,
		DatabaseURL: postgres.URL(r.Postgres.Address, Database), Temporal: r.Temporal.Address,
		Env: append(env, r.Env...), LogPath: filepath.Join(r.lab.Dir, fmt.Sprintf("replica-%d-%d.log", r.N, r.starts)),
	}.Start()
	return err
}

// Ready waits until the replica listens.
func (r *Replica) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, fmt.Errorf("not within %s", readyTimeout))
	defer cancel()
	_, err := stack.AwaitSaying(ctx, r.Process(), stack.Listening)
	return err
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
	began := time.Now()
	err := r.Process().Stop(stopTimeout)
	return time.Since(began), err
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
