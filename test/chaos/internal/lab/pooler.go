package lab

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
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/postgres"
)

const poolerConfig = `[databases]
* = host=127.0.0.1 port=%d user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 20
ignore_startup_parameters = extra_float_digits
`

// Pooler starts PgBouncer in transaction mode in front of the primary.
func (l *Lab) Pooler(ctx context.Context) (address string, stop func() error, err error) {
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer"
	}
	if _, err := os.Stat(program); err != nil {
		return "", nil, fmt.Errorf("%w: there is no pgbouncer: install it", postgres.ErrNotHere)
	}
	port, err := process.FreePort("127.0.0.1")
	if err != nil {
		return "", nil, err
	}
	config := filepath.Join(l.Dir, "pgbouncer.ini")
	if err := os.WriteFile(config, fmt.Appendf(nil, poolerConfig, l.Primary().Port, port), 0o644); err != nil {
		return "", nil, fmt.Errorf("configure PgBouncer: %w", err)
	}
	user, err := postgres.Credential()
	if err != nil {
		return "", nil, err
	}
	p, err := process.Start(process.Spec{Name: "PgBouncer", Program: program, Args: []string{config},
		LogPath: filepath.Join(l.Dir, "pgbouncer.log"), Credential: user})
	if err != nil {
		return "", nil, err
	}
	address = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	err = Await(ctx, 5*time.Second, "PgBouncer answers", func() (bool, error) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			err = conn.Close()
		}
		return err == nil, err
	})
	if err != nil {
		return "", nil, errors.Join(err, p.Kill(), errors.New(p.Tail()))
	}
	return address, p.Kill, nil
}
