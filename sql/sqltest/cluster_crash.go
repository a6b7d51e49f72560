package sqltest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// backupTimeout limits the copy of a cluster.
const backupTimeout = 2 * time.Minute

// Standby copies the cluster into another that follows it and serves reads only, until it is promoted. The caller must
// stop it.
func (c *Cluster) Standby(ctx context.Context) (*Cluster, error) {
	dir, lock, err := makeDir(filepath.Dir(c.Dir))
	if err != nil {
		return nil, err
	}
	s := &Cluster{Dir: dir, BinDir: c.BinDir, account: c.account, settings: c.settings, environment: c.environment,
		lock: lock}
	if err := s.follow(ctx, c); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (c *Cluster) follow(ctx context.Context, primary *Cluster) error {
	if err := c.account.own(c.Dir); err != nil {
		return fmt.Errorf("give the standby's directory to %s: %w", c.account.name, err)
	}
	if err := c.backUp(ctx, primary); err != nil {
		return err
	}
	var err error
	if c.Port, err = freePort(ctx); err != nil {
		return err
	}
	return c.startServer(ctx)
}

// backUp copies the files of a running server. Not every distribution of Postgres has pg_basebackup.
func (c *Cluster) backUp(ctx context.Context, primary *Cluster) error {
	ctx, cancel := context.WithTimeoutCause(ctx, backupTimeout, fmt.Errorf("the copy took longer than %s", backupTimeout))
	defer cancel()
	conn, err := pgx.Connect(ctx, primary.URL("postgres"))
	if err != nil {
		return fmt.Errorf("connect for a backup: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "select pg_backup_start('standby', true)"); err != nil {
		return fmt.Errorf("begin a backup: %w", err)
	}

	// A file that disappears meanwhile is of no use to the standby: the log says what became of it.
	cmd := exec.CommandContext(ctx, "cp", "-R", primary.dataDir(), c.dataDir())
	c.prepare(cmd)
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if err != nil && !strings.Contains(line, "No such file or directory") {
			return fmt.Errorf("copy the server's files as %s: %w\n%s", c.account.name, err, out)
		}
	}

	var label string
	if err := conn.QueryRow(ctx, "select labelfile from pg_backup_stop()").Scan(&label); err != nil {
		return fmt.Errorf("end a backup: %w", err)
	}
	if err := os.Remove(filepath.Join(c.dataDir(), "postmaster.pid")); err != nil {
		return fmt.Errorf("copy the server's files: %w", err)
	}
	for name, text := range map[string]string{
		"backup_label": label, "standby.signal": "",
		"postgresql.auto.conf": fmt.Sprintf("primary_conninfo = 'host=127.0.0.1 port=%d user=postgres'\n", primary.Port),
	} {
		if err := c.write(name, text); err != nil {
			return fmt.Errorf("configure the standby: %w", err)
		}
	}
	return nil
}

// write replaces a file of the data directory, as the server's user.
func (c *Cluster) write(name, text string) error {
	path := filepath.Join(c.dataDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	return c.account.own(path)
}
