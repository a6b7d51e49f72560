// Package pooler starts PgBouncer for the harnesses.
package pooler

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/process"
)

// ErrMissing means that this machine has no PgBouncer.
var ErrMissing = errors.New("there is no pgbouncer: install it")

// startTimeout limits the wait for PgBouncer's port.
const startTimeout = 5 * time.Second

const configuration = `[databases]
* = host=%s port=%s user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 20
`

// Pooler is a running PgBouncer in transaction mode.
type Pooler struct {
	*process.Process
	// Address is its host and port.
	Address string
	dir     string
}

// Start starts PgBouncer in transaction mode in front of the Postgres at an address, which need not run. It accepts
// every user without a password and logs in as postgres. more is appended to its settings.
func Start(ctx context.Context, server, more string) (*Pooler, error) {
	host, serverPort, err := net.SplitHostPort(server)
	if err != nil {
		return nil, fmt.Errorf("address of Postgres: %w", err)
	}
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer" // not in every user's PATH
	}
	if _, err := os.Stat(program); err != nil {
		return nil, ErrMissing
	}
	credential, err := process.ServerCredential()
	if err != nil {
		return nil, err
	}
	port, err := process.FreePort("127.0.0.1")
	if err != nil {
		return nil, err
	}
	p := &Pooler{Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	if p.dir, err = os.MkdirTemp("", "pgdispatch-pooler-*"); err != nil {
		return nil, fmt.Errorf("create a directory for PgBouncer: %w", err)
	}
	config := filepath.Join(p.dir, "pgbouncer.ini")
	text := fmt.Sprintf(configuration, host, serverPort, port) + more + "\n"
	err = errors.Join(os.Chmod(p.dir, 0o755), os.WriteFile(config, []byte(text), 0o644)) //nolint:gosec // of its account
	if err != nil {
		return nil, errors.Join(fmt.Errorf("configure PgBouncer: %w", err), os.RemoveAll(p.dir))
	}
	if p.Process, err = process.Start(process.Spec{Name: "PgBouncer", Program: program, Args: []string{config},
		LogPath: filepath.Join(p.dir, "log"), Credential: credential}); err != nil {
		return nil, errors.Join(err, os.RemoveAll(p.dir))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout,
		fmt.Errorf("PgBouncer did not accept connections within %s", startTimeout))
	defer cancel()
	if err := p.Await(ctx, p.accepts); err != nil {
		return nil, errors.Join(err, p.Stop())
	}
	return p, nil
}

func (p *Pooler) accepts() error {
	conn, err := net.Dial("tcp", p.Address)
	if err == nil {
		err = conn.Close()
	}
	return err
}

// Stop ends PgBouncer and removes its files.
func (p *Pooler) Stop() error { return errors.Join(p.Kill(), os.RemoveAll(p.dir)) }
