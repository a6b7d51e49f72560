package postgres

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
)

// diskBytes is the size of each of a server's two disks, if it has its own: one for data, one for the WAL.
const diskBytes = 1 << 30

// ballast is the name of the file that fills a disk.
const ballast = "ballast"

// disks counts the disks of this process's servers.
var disks atomic.Int64

func (n *Node) wal() string { return filepath.Join(n.dir, "log", "wal") }

// mount gives the server two disks in memory if the harness may mount them, so that a full disk is never the machine's
// own.
func (n *Node) mount() error {
	for _, dir := range []string{n.disk(false), n.disk(true)} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fmt.Errorf("make directory of %s: %w", n.Name, err)
		}
		n.small = os.Geteuid() == 0 && mountMemory(dir, diskBytes) == nil
		if err := skipInodes(dir, int(64*disks.Add(1))); err != nil {
			return fmt.Errorf("number the files of %s: %w", n.Name, err)
		}
		if n.user == nil {
			continue
		}
		if err := os.Chown(dir, int(n.user.Uid), int(n.user.Gid)); err != nil {
			return fmt.Errorf("give directory of %s to the server's user: %w", n.Name, err)
		}
	}
	return nil
}

// skipInodes makes the next file of a new file system in memory have a number that is not among the first count.
// Postgres finds its shared memory by the number of its data directory. If two servers had the same, one that starts
// would be attached to the other's for a moment, in which the other cannot start.
func skipInodes(dir string, count int) error {
	for range count {
		name := filepath.Join(dir, ballast)
		if err := errors.Join(os.WriteFile(name, nil, 0o600), os.Remove(name)); err != nil {
			return err
		}
	}
	return nil
}

// Unmount unmounts the disks and discards their content.
func (n *Node) Unmount() error {
	if !n.small {
		return nil
	}
	return errors.Join(unmount(n.disk(false)), unmount(n.disk(true)))
}

// disk returns the directory of the disk for the WAL, or of the disk for all other data.
func (n *Node) disk(log bool) string {
	if log {
		return filepath.Join(n.dir, "log")
	}
	return filepath.Join(n.dir, "disk")
}

// Fill uses all remaining space on one of the server's disks.
func (n *Node) Fill(log bool) error {
	if !n.small {
		return fmt.Errorf("%w: a disk of its own for the server takes root and Linux", ErrNotHere)
	}
	file, err := os.Create(filepath.Join(n.disk(log), ballast))
	if err != nil {
		return fmt.Errorf("fill disk of %s: %w", n.Name, err)
	}
	defer file.Close()
	if _, err = io.Copy(file, zeros{}); !errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("fill disk of %s: it is not full: %w", n.Name, err)
	}
	return nil
}

// Free releases the space again.
func (n *Node) Free(log bool) error {
	if err := os.Remove(filepath.Join(n.disk(log), ballast)); err != nil {
		return fmt.Errorf("free disk of %s: %w", n.Name, err)
	}
	return nil
}

// zeros is an endless reader.
type zeros struct{}

// Read leaves p unchanged. A fresh buffer holds zeros.
func (zeros) Read(p []byte) (int, error) { return len(p), nil }
