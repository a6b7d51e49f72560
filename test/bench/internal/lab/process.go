package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	// stopTimeout is how long a process may take to end after SIGTERM before it is killed.
	stopTimeout = 30 * time.Second
	// tailLines is how many lines of the log an error shows.
	tailLines = 12
)

// Process is a contestant. Each is a program of its own with its own runtime, separate from the bench's.
type Process struct {
	PID int

	name, logPath string
	admin         string // where a replica serves its metrics; empty for other processes
	cmd           *exec.Cmd
	exited        chan struct{}
	waitErr       error // valid once exited is closed
}

// start runs a program with the given variables added to the environment. Its output goes to a file.
func (l *Lab) start(name, program string, args, variables []string) (*Process, error) {
	p := &Process{name: name, exited: make(chan struct{}), logPath: filepath.Join(l.dir, fmt.Sprintf("%s-%d.log", name, l.names.Add(1)))}
	log, err := os.Create(p.logPath)
	if err != nil {
		return nil, fmt.Errorf("open log of %s: %w", name, err)
	}
	defer log.Close()
	p.cmd = exec.Command(program, args...)
	p.cmd.Env = append(os.Environ(), variables...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(p.cmd.SysProcAttr)
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the parent death signal is bound to the thread
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.waitErr = p.cmd.Wait()
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.PID = p.cmd.Process.Pid
	return p, nil
}

// Alive returns an error, with the end of the log, once the process has ended.
func (p *Process) Alive() error {
	select {
	case <-p.exited:
		return fmt.Errorf("%s ended by itself (%v):\n%s", p.name, p.cmd.ProcessState, tail(p.logPath))
	default:
		return nil
	}
}

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Stop sends SIGTERM and waits, and kills the process if that takes too long. A non-zero exit is an error.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", p.name, err)
	}
	select {
	case <-p.exited:
		if p.waitErr != nil {
			return fmt.Errorf("stop %s: %w:\n%s", p.name, p.waitErr, tail(p.logPath))
		}
		return nil
	case <-time.After(stopTimeout):
		return errors.Join(fmt.Errorf("stop %s: still there after %s, killed:\n%s", p.name, stopTimeout, tail(p.logPath)), p.Kill())
	}
}

// Kill ends the process with SIGKILL. It is for processes that have nothing more to report.
func (p *Process) Kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.exited
	return nil
}

func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}
