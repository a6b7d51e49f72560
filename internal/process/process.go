// Package process runs programs beside a test or the demonstration: replicas and servers that can be signalled,
// frozen, killed and waited for, that write to a log, and that end with this process.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// tailLines is how many lines of a log an error shows.
	tailLines = 15
	// killTimeout is how long a process may take to end after SIGKILL.
	killTimeout = 10 * time.Second
	// readyInterval is how often Await asks.
	readyInterval = 10 * time.Millisecond
)

// Spec describes a program to run.
type Spec struct {
	// Name identifies the process in messages.
	Name string
	// Program and Args are the command line.
	Program string
	Args    []string
	// Env is the complete environment. Nil means this process's.
	Env []string
	// Dir is the working directory. Empty means this process's.
	Dir string
	// LogPath is the file to which standard error is appended, and standard output too if there is no Terminal.
	LogPath string
	// Terminal is standard input and output of a program that draws on it. The program stays in this process's group:
	// only the foreground group may read a terminal.
	Terminal *Terminal
	// Credential is the user to run as. Nil means this process's.
	Credential *syscall.Credential
	// DeathSignal is what the kernel sends when this process ends. Zero means SIGKILL. Only Linux sends it.
	DeathSignal syscall.Signal
}

// Terminal is a terminal's input and output.
type Terminal struct{ In, Out *os.File }

// Process is a running program, or one that has ended.
type Process struct {
	// Name identifies the process in messages.
	Name string
	// PID is the process ID.
	PID int
	// LogPath is the path of the log.
	LogPath string

	cmd      *exec.Cmd
	logFrom  int64 // where this process's part of the log begins
	exited   chan struct{}
	waitErr  error       // valid once exited is closed
	reported atomic.Bool // Alive has returned the error, so Stop need not
}

// Start starts a program, without a Terminal in a process group of its own, so that a Ctrl-C reaches only this process.
func Start(spec Spec) (*Process, error) {
	log, err := os.OpenFile(spec.LogPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open log of %s: %w", spec.Name, err)
	}
	defer log.Close()
	p := &Process{Name: spec.Name, LogPath: spec.LogPath, exited: make(chan struct{})}
	p.cmd = exec.Command(spec.Program, spec.Args...)
	if p.logFrom, err = log.Seek(0, io.SeekEnd); err != nil {
		return nil, fmt.Errorf("open log of %s: %w", spec.Name, err)
	}
	p.cmd.Env, p.cmd.Dir = spec.Env, spec.Dir
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: spec.Terminal == nil, Credential: spec.Credential}
	if spec.Terminal != nil {
		p.cmd.Stdin, p.cmd.Stdout = spec.Terminal.In, spec.Terminal.Out
	}
	signal := spec.DeathSignal
	if signal == 0 {
		signal = syscall.SIGKILL
	}
	dieWithParent(p.cmd.SysProcAttr, signal)
	if err := p.start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	p.PID = p.cmd.Process.Pid
	return p, nil
}

// start starts the program from a thread that lives as long as it does: the death signal comes when that thread ends.
func (p *Process) start() error {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.waitErr = p.cmd.Wait()
			close(p.exited)
		}
	}()
	return <-started
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

// ExitCode returns the exit status, or -1 if a signal ended the process. Call it only once the process has ended.
func (p *Process) ExitCode() int { return p.cmd.ProcessState.ExitCode() }

// Alive returns an error with the end of the log once the process has ended.
func (p *Process) Alive() error {
	if p.Running() {
		return nil
	}
	p.reported.Store(true)
	return fmt.Errorf("%s ended (%s)%s", p.Name, p.cmd.ProcessState, p.theEnd())
}

// Await calls ready until it returns nil. If the process or ctx ends first, the error has the end of the log.
func (p *Process) Await(ctx context.Context, ready func() error) error {
	tick := time.NewTicker(readyInterval)
	defer tick.Stop()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-p.exited:
			return p.Alive()
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w: %w%s", p.Name, context.Cause(ctx), err, p.theEnd())
		case <-tick.C:
		}
	}
}

// Signal sends a signal. A process that has ended is no error.
func (p *Process) Signal(signal syscall.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", p.Name, err)
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

// Stop sends SIGTERM and waits. It is an error if the process has to be killed, or if it ends with a status other than
// 0 that Alive has not reported.
func (p *Process) Stop(timeout time.Duration) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if !p.EndsWithin(timeout) {
		err := fmt.Errorf("stop %s: still there %s after SIGTERM, killed%s", p.Name, timeout, p.theEnd())
		return errors.Join(err, p.Kill())
	}
	if p.waitErr != nil && !p.reported.Load() {
		return fmt.Errorf("stop %s: %w%s", p.Name, p.waitErr, p.theEnd())
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

func (p *Process) theEnd() string { return fmt.Sprintf("; the end of %s:\n%s", p.LogPath, p.Tail()) }

// Log returns what this process has written to its log, or nothing if the log cannot be read.
func (p *Process) Log() string {
	text, err := os.ReadFile(p.LogPath)
	if err != nil || int64(len(text)) < p.logFrom {
		return ""
	}
	return string(text[p.logFrom:])
}

// Tail returns the last lines of Log, for error messages.
func (p *Process) Tail() string {
	lines := strings.Split(strings.TrimRight(p.Log(), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}

// Buffer collects the output of processes and goroutines, which may write at the same time. The zero value is empty.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write appends p. It never fails.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns what was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// foreign are the prefixes of variables that point a program to a database or a Temporal server, or configure
// pgdispatch.
var foreign = []string{"PG", "TEMPORAL_", "DATABASE_URL="}

// Environment returns this process's environment without what would point a program elsewhere, and with the given
// variables.
func Environment(variables ...string) []string {
	own := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return slices.ContainsFunc(foreign, func(prefix string) bool { return strings.HasPrefix(variable, prefix) })
	})
	return append(own, variables...)
}

// The ports from which FreePort chooses are below those that Linux gives to outgoing connections, from 32768. A server
// that is restarted on its port would otherwise find one of them there.
const lowestPort, highestPort = 15000, 32000

// portTries is how many ports FreePort tries.
const portTries = 100

// FreePort returns a TCP port of host that was free a moment ago, and that no outgoing connection takes.
func FreePort(host string) (port int, err error) {
	for range portTries {
		port = lowestPort + rand.IntN(highestPort-lowestPort)
		var listener net.Listener
		if listener, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port))); err == nil {
			err = listener.Close()
			break
		}
	}
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	return port, nil
}

// FreeAddress returns an address of this machine's loopback interface that was free a moment ago.
func FreeAddress() (string, error) {
	port, err := FreePort("127.0.0.1")
	return fmt.Sprintf("127.0.0.1:%d", port), err
}
