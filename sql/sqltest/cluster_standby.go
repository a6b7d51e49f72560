package sqltest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// backupTimeout limits pg_basebackup.
const backupTimeout = 2 * time.Minute

// Standby copies the cluster into another that follows it and serves reads only, until it is promoted. The caller must
// stop it.
func (c *Cluster) Standby(ctx context.Context) (*Cluster, error) {
	dir, lock, err := makeDir(os.TempDir())
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
