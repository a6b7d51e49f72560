package postgres

import (
	"context"
	_ "embed" // for the query
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

//go:embed wal_writer.sql
var walWriter string

// Crash kills all processes of the server with SIGKILL at once: what is only in its memory is lost. They are stopped
// first, so that none sees another die.
func (n *Node) Crash() error {
	processes := n.processes()
	for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for _, pid := range processes {
			_ = syscall.Kill(pid, signal)
		}
	}
	return n.Kill()
}

// Forgetful freezes the process that writes committed transactions of which nobody waits for the write: until another
// commit waits, they exist in memory only. It lasts until the server is started again. Such a server can only be
// crashed.
func (n *Node) Forgetful(ctx context.Context) error {
	conn, err := n.Connect(ctx, "postgres")
	if err != nil {
		return err
	}
	var pid int
	err = conn.QueryRow(ctx, walWriter).Scan(&pid)
	if err = errors.Join(err, conn.Close(ctx)); err != nil {
		return fmt.Errorf("find the WAL writer of %s: %w", n.Name, err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("freeze the WAL writer of %s: %w", n.Name, err)
	}
	return nil
}

// Copy creates a server with the data of one that has been stopped. It does not start it.
func (n *Node) Copy(ctx context.Context, parent, name string) (*Node, error) {
	c, err := blank(ctx, parent, name)
	if err != nil {
		return nil, err
	}
	link := filepath.Join(c.data(), "pg_wal")
	for from, to := range map[string]string{n.data(): c.data(), n.wal(): c.wal()} {
		if err := c.prepare(ctx, "/bin/cp", "-a", from, to); err != nil {
			return c, err
		}
	}
	if err := errors.Join(os.Remove(link), os.Symlink(c.wal(), link)); err != nil {
		return c, fmt.Errorf("link the WAL of %s: %w", name, err)
	}
	return c, nil
}
