package demo

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	// processStopTimeout is how long a process may take to exit after SIGTERM before it is killed.
	processStopTimeout = 25 * time.Second
	// processKillTimeout is how long a process may take to exit after SIGKILL.
	processKillTimeout = 5 * time.Second
	// tailLines is how many lines of a log an error includes.
	tailLines = 8
)

// process is a program that runs beside this one, with its output in a file.
type process struct {
	// name identifies the process in messages.
	name string
	// logPath is where its output goes.
	logPath string

	cmd    *exec.Cmd
	exited chan struct{}
	// waitErr is the result of Wait. It is valid once exited is closed.
	waitErr error
	// reported means that alive has already returned the error, so that stop need not.
	reported bool
}

// startProcess starts cmd in its own process group, so that a Ctrl-C reaches only this process. On Linux the child
// dies with this process: the kernel signals it when the thread that started it ends, so that thread waits for it.
func startProcess(name, logPath string, cmd *exec.Cmd) (*process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log of %s: %w", name, err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	p := &process{name: name, logPath: logPath, cmd: cmd, exited: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.waitErr = cmd.Wait()
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// alive returns an error with the end of the log once the process has ended.
func (p *process) alive() error {
	select {
	case <-p.exited:
		p.reported = true
		return fmt.Errorf("%s ended (%s); the end of %s:\n%s", p.name, p.cmd.ProcessState, p.logPath, tail(p.logPath))
	default:
		return nil
	}
}

// stop sends SIGTERM and waits. It is an error if the process has to be killed, or if it exits with a non-zero status
// that alive has not reported.
func (p *process) stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", p.name, err)
	}
	if p.endsWithin(processStopTimeout) {
		if p.waitErr != nil && !p.reported {
			return fmt.Errorf("stop %s: %w; the end of %s:\n%s", p.name, p.waitErr, p.logPath, tail(p.logPath))
		}
		return nil
	}
	err := fmt.Errorf("stop %s: still there %s after SIGTERM, killed; the end of %s:\n%s",
		p.name, processStopTimeout, p.logPath, tail(p.logPath))
	if killErr := p.cmd.Process.Kill(); killErr != nil && !errors.Is(killErr, os.ErrProcessDone) {
		return errors.Join(err, killErr)
	}
	if !p.endsWithin(processKillTimeout) {
		err = fmt.Errorf("%w\nand still there %s after SIGKILL", err, processKillTimeout)
	}
	return err
}

// endsWithin waits at most timeout and reports whether the process has ended.
func (p *process) endsWithin(timeout time.Duration) bool {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-p.exited:
		return true
	case <-timer.C:
		return false
	}
}

// tail returns the last lines of a file, or nothing if it cannot be read.
func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}
