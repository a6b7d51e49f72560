package sqltest

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/sethvargo/go-retry"
)

// sharedMemoryInUse is part of what a starting server logs while a process of its predecessor is still exiting.
const sharedMemoryInUse = "pre-existing shared memory block"

// walWriterTimeout bounds the wait for the WAL writer of a server that has just started.
const walWriterTimeout = 10 * time.Second

// HoldWAL freezes the process that writes out asynchronous commits in the background. From then on, only a durable
// commit makes earlier ones durable, so that Crash undoes all asynchronous ones after the last durable one. Freeze it
// while the server has something to do: asleep for long, it would be woken for each commit.
func (c *Cluster) HoldWAL(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, c.URL("postgres"))
	if err != nil {
		return fmt.Errorf("connect to hold the WAL writer: %w", err)
	}
	defer conn.Close(ctx)
	var pid int
	// A server that has just started may accept connections before it has a WAL writer.
	if err := retry.Do(ctx, retry.WithMaxDuration(walWriterTimeout, retry.NewConstant(10*time.Millisecond)),
		func(ctx context.Context) error {
			return retry.RetryableError(conn.QueryRow(ctx,
				"select pid from pg_stat_activity where backend_type = 'walwriter'").Scan(&pid))
		}); err != nil {
		return fmt.Errorf("find the WAL writer: %w", err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("freeze the WAL writer: %w", err)
	}
	return nil
}

// Crash kills all processes of the server with SIGKILL, and starts it again on the same port.
func (c *Cluster) Crash(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, c.URL("postgres"))
	if err != nil {
		return fmt.Errorf("connect before the crash: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	// Frozen, it starts no more processes.
	if err := syscall.Kill(c.PID(), syscall.SIGSTOP); err != nil {
		return fmt.Errorf("freeze postgres: %w", err)
	}
	rows, err := conn.Query(ctx, "select pid from pg_stat_activity")
	if err != nil {
		return fmt.Errorf("list the server's processes: %w", err)
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return fmt.Errorf("list the server's processes: %w", err)
	}
	for _, pid := range append(pids, c.PID()) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("kill process %d of postgres: %w", pid, err)
		}
	}
	<-c.server.exited
	return c.restart(ctx)
}

// restart starts the server again after its processes were killed, and waits for the last of them to exit.
func (c *Cluster) restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("postgres was not back within %s", startTimeout))
	defer cancel()
	for {
		err := c.startServer(ctx)
		if err == nil || !strings.Contains(err.Error(), sharedMemoryInUse) && !errors.Is(err, errPortTaken) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(readyPollInterval):
		}
	}
}

// backupTimeout limits pg_basebackup.
const backupTimeout = 2 * time.Minute

// Standby copies the cluster into another that follows it and serves reads only, until it is promoted. The caller must
// stop it.
func (c *Cluster) Standby(ctx context.Context) (*Cluster, error) {
	dir, lock, err := makeDir(filepath.Dir(c.Dir))
	if err != nil {
		return nil, err
	}
	s := &Cluster{Dir: dir, BinDir: c.BinDir, lock: lock}
	if err := s.follow(ctx, c); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (c *Cluster) follow(ctx context.Context, primary *Cluster) error {
	c.account = primary.account
	if err := c.account.own(c.Dir); err != nil {
		return fmt.Errorf("give the standby's directory to %s: %w", c.account.name, err)
	}
	copying, cancel := context.WithTimeoutCause(ctx, backupTimeout,
		fmt.Errorf("pg_basebackup took longer than %s", backupTimeout))
	defer cancel()
	cmd := exec.CommandContext(copying, filepath.Join(c.BinDir, "pg_basebackup"), "--pgdata", c.dataDir(),
		"--host", "127.0.0.1", "--port", strconv.Itoa(primary.Port), "--username", "postgres",
		"--write-recovery-conf", "--checkpoint", "fast", "--wal-method", "stream", "--no-sync")
	c.prepare(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run pg_basebackup as %s: %w\n%s", c.account.name, err, out)
	}
	var err error
	if c.Port, err = freePort(ctx); err != nil {
		return err
	}
	return c.startServer(ctx)
}
