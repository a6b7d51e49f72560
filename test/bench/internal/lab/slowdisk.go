package lab

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"
)

// slowDiskSource is a library that makes Postgres' flushes take longer.
//
//go:embed slowdisk/slowdisk.c
var slowDiskSource []byte

// slowDisk is a directory with that library, which the server loads, and the file that says how much longer.
type slowDisk string

// newSlowDisk compiles the library. Without a C compiler, or for another system than Linux, it returns an empty one.
func newSlowDisk(ctx context.Context, parent string) (slowDisk, error) {
	compiler, err := exec.LookPath("cc")
	if err != nil || runtime.GOOS != "linux" {
		return "", nil
	}
	// The server's user must be able to read it.
	dir, err := os.MkdirTemp("", "pgdispatch-slowdisk-*")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		return "", fmt.Errorf("make directory: %w", err)
	}
	s := slowDisk(dir)

	source := filepath.Join(parent, "slowdisk.c")
	if err := os.WriteFile(source, slowDiskSource, 0o600); err != nil {
		return s, err
	}
	compile := exec.CommandContext(ctx, compiler, "-shared", "-fPIC", "-O2", "-o", s.library(), source, "-ldl")
	if output, err := compile.CombinedOutput(); err != nil {
		return s, fmt.Errorf("compile slowdisk.c: %w\n%s", err, output)
	}
	return s, s.takes(0)
}

func (s slowDisk) library() string { return filepath.Join(string(s), "slowdisk.so") }
func (s slowDisk) file() string    { return filepath.Join(string(s), "microseconds") }

// environment is what makes a server load the library.
func (s slowDisk) environment() []string {
	if s == "" {
		return nil
	}
	return []string{"LD_PRELOAD=" + s.library(), "SLOWDISK_FILE=" + s.file()}
}

// takes sets how much longer each flush takes.
func (s slowDisk) takes(longer time.Duration) error {
	err := os.WriteFile(s.file(), []byte(strconv.FormatInt(longer.Microseconds(), 10)), 0o644)
	if err != nil {
		return fmt.Errorf("set the duration of a flush: %w", err)
	}
	return nil
}

func (s slowDisk) remove() error {
	if s == "" {
		return nil
	}
	return os.RemoveAll(string(s))
}

// SlowDown makes each flush of the server's log take longer, until restore is called. It fails if the server cannot be
// slowed down.
func (l *Lab) SlowDown(ctx context.Context, longer time.Duration) (restore func() error, err error) {
	if l.slow == "" {
		return nil, fmt.Errorf("flushes cannot be slowed down: install a C compiler, cc")
	}
	if err := l.slow.takes(longer); err != nil {
		return nil, err
	}
	restore = func() error { return l.slow.takes(0) }

	began := time.Now()
	if _, err := l.admin.Exec(ctx, "select pg_logical_emit_message(true, '', '')"); err != nil {
		return restore, fmt.Errorf("commit a transaction: %w", err)
	}
	if took := time.Since(began); took < longer {
		return restore, fmt.Errorf("a commit takes %s although a flush takes %s longer: the server lacks slowdisk.so", took,
			longer)
	}
	return restore, nil
}
