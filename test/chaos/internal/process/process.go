// Package process runs replicas and servers as child processes that can be killed, frozen and restarted, and that die
// with the harness.
package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	// tailLines is how many lines of a log an error shows.
	tailLines = 15
	// killTimeout is how long a process may take to exit after SIGKILL.
	killTimeout = 10 * time.Second
)

// Spec describes a program to run.
type Spec struct {
	// Name identifies the process in messages.
	Name string
	// Program and Args are the command line.
	Program string
	Args    []string
	// Env is the complete environment.
	Env []string
	// Dir is the working directory. Empty means the harness's.
	Dir string
	// LogPath is the file to which standard error is appended, and standard output too if Stdout is nil.
	LogPath string
	// Stdout receives standard output. If nil, the log does.
	Stdout io.Writer
	// Credential is the user to run as. Nil means the harness's user.
	Credential *syscall.Credential
	// DeathSignal is the signal that the kernel sends when the harness ends. Zero means SIGKILL.
	DeathSignal syscall.Signal
}

// Process is a running program, or one that has ended.
type Process struct {
	// Name identifies the process in messages.
	Name string
	// PID is the process ID.
	PID int
	// LogPath is the path of the log.
	LogPath string

	cmd     *exec.Cmd
	exited  chan struct{}
	waitErr error // valid once exited is closed
}

// Start starts a program in its own process group, so that a Ctrl-C reaches only the harness.
func Start(spec Spec) (*Process, error) {
	log, err := os.OpenFile(spec.LogPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log of %s: %w", spec.Name, err)
	}
	defer log.Close()
	p := &Process{Name: spec.Name, LogPath: spec.LogPath, cmd: exec.Command(spec.Program, spec.Args...), exited: make(chan struct{})}
	p.cmd.Env, p.cmd.Dir = spec.Env, spec.Dir
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if spec.Stdout != nil {
		p.cmd.Stdout = spec.Stdout
	}
	signal := spec.DeathSignal
	if signal == 0 {
		signal = syscall.SIGKILL
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: spec.Credential}
	dieWithParent(p.cmd.SysProcAttr, signal)
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
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	p.PID = p.cmd.Process.Pid
	return p, nil
}

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Running reports whether the process is still running.
func (p *Process) Running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// ExitCode returns the exit code, or -1 if a signal ended the process. Call it only after Exited is closed.
func (p *Process) ExitCode() int { return p.cmd.ProcessState.ExitCode() }

// Signal sends a signal. It returns no error if the process has already ended.
func (p *Process) Signal(signal syscall.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", p.Name, err)
	}
	return nil
}

// Kill sends SIGKILL and waits until the process is gone.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	if !p.EndsWithin(killTimeout) {
		return fmt.Errorf("kill %s: still there after %s", p.Name, killTimeout)
	}
	return nil
}

// EndsWithin waits at most timeout and reports whether the process has ended.
func (p *Process) EndsWithin(timeout time.Duration) bool {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-p.exited:
		return true
	case <-timer.C:
		return false
	}
}

// Tail returns the end of the process's log, for error messages.
func (p *Process) Tail() string { return Tail(p.LogPath) }

// Tail returns the last lines of a log.
func Tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}
