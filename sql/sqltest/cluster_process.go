package sqltest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

const (
	// dirPattern matches the private directories, so that abandoned ones can be found.
	dirPattern = "pgdispatch-pg-*"
	// lockName is the file in the directory that the owning process keeps locked until it exits.
	lockName = "owner.lock"
	// abandonedAge protects a new directory whose owner has not locked it yet.
	abandonedAge = time.Minute
)

// server is a running postgres process.
type server struct {
	cmd    *exec.Cmd
	exited chan struct{}
	// waitErr is the result of Wait. Read it only after exited is closed.
	waitErr error
}

// startProcess starts cmd from an OS thread that lives as long as the process does. The kernel sends the parent death
// signal when the thread that started the child ends, and Go may end idle threads at any time. With a locked thread,
// the signal means that this process has died.
func startProcess(cmd *exec.Cmd) (*server, error) {
	s := &server{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		s.waitErr = cmd.Wait()
		close(s.exited)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return s, nil
}

// stop ends the server: fast shutdown, then immediate shutdown, then SIGKILL. It returns nil after a clean exit, or if
// the server has already ended.
func (s *server) stop() error {
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT, os.Kill} {
		if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("signal postgres: %w", err)
		}
		timeout := time.NewTimer(stopTimeout)
		select {
		case <-s.exited:
			timeout.Stop()
			return nil
		case <-timeout.C:
		}
	}
	return fmt.Errorf("stop postgres: process %d is still there after SIGKILL and %s", s.cmd.Process.Pid, stopTimeout)
}

// exitError returns how the server ended. Call it only after exited is closed.
func (s *server) exitError() error {
	if s.waitErr == nil {
		return errors.New("exit status 0")
	}
	return s.waitErr
}

// makeDir creates the private directory and locks it until this process exits.
func makeDir(parent string) (string, *os.File, error) {
	dir, err := os.MkdirTemp(parent, dirPattern)
	if err != nil {
		return "", nil, fmt.Errorf("make cluster directory: %w", err)
	}
	lock, err := os.Create(filepath.Join(dir, lockName))
	if err == nil {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("lock cluster directory: %w", err), os.RemoveAll(dir))
	}
	return dir, lock, nil
}

// sweepAbandoned removes the directories of clusters whose owner was killed. It is best effort: failures are left to
// the next sweep. A server that still runs in such a directory, on systems without a parent death signal, notices
// within a minute and exits.
func sweepAbandoned(parent string) {
	dirs, err := filepath.Glob(filepath.Join(parent, dirPattern))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		lock, err := os.Open(filepath.Join(dir, lockName))
		if err != nil {
			continue
		}
		info, err := lock.Stat()
		old := err == nil && time.Since(info.ModTime()) > abandonedAge
		if old && syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(dir)
		}
		_ = lock.Close()
	}
}

// account is the user that runs the server's programs. Postgres refuses to run as root, so for root it is another user.
// Otherwise it is the caller's own.
type account struct {
	name     string
	uid, gid int
	// change is set if the account is not the caller's own.
	change bool
}

// serverAccount returns the caller's own account, or for root the user postgres or else nobody.
func serverAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{name: "uid " + strconv.Itoa(os.Geteuid())}, nil
	}
	var missing error
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			missing = errors.Join(missing, err)
			continue
		}
		uid, uidErr := strconv.Atoi(u.Uid)
		gid, gidErr := strconv.Atoi(u.Gid)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return account{}, fmt.Errorf("read user %s: %w", name, err)
		}
		return account{name: name, uid: uid, gid: gid, change: true}, nil
	}
	return account{}, fmt.Errorf("find a user to run postgres as, which refuses root: %w", missing)
}

// own makes the account the owner of path.
func (a account) own(path string) error {
	if !a.change {
		return nil
	}
	return os.Chown(path, a.uid, a.gid)
}

// attributes returns the attributes of a process of the account. It gets its own process group, so that Ctrl-C in the
// terminal reaches the cluster's owner but not the server directly.
func (a account) attributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if a.change {
		attr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	dieWithParent(attr)
	return attr
}
