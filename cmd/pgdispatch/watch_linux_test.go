package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// openPty returns both ends of a new pseudo terminal.
func openPty(t *testing.T) (person, terminal *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = person.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = terminal.Close() })
	return person, terminal
}

// Runs once for each way to quit.
func TestTheWatchGivesTheTerminalBackAsItWas(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	self, err := os.Executable()
	require.NoError(t, err)
	for name, end := range map[string]func(person *os.File, p *os.Process) error{
		"q":       func(person *os.File, _ *os.Process) error { _, err := person.WriteString("q"); return err },
		"Ctrl-C":  func(person *os.File, _ *os.Process) error { _, err := person.WriteString("\x03"); return err },
		"SIGTERM": func(_ *os.File, p *os.Process) error { return p.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			person, terminal := openPty(t)
			size := func(rows, columns uint16) {
				require.NoError(t, unix.IoctlSetWinsize(int(person.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}))
			}
			size(24, 80)
			before, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
			require.NoError(t, err)
			seen := &logBuffer{}
			go func() { _, _ = io.Copy(seen, person) }() // until the terminal is closed

			p := exec.Command(self, "status", "--watch", "--interval", "200ms")
			p.Env = append(os.Environ(), asReplica+"=1", "DATABASE_URL="+d.url, "TERM=xterm", "NO_COLOR=1")
			p.Stdin, p.Stdout, p.Stderr = terminal, terminal, terminal
			p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			require.NoError(t, p.Start())
			await(t, 20*time.Second, func() bool { return strings.Contains(seen.String(), "shop") }, "the workspace is shown")
			require.Contains(t, seen.String(), "\x1b[?1049h")
			require.NotContains(t, seen.String(), "\x1b[31", "NO_COLOR")
			size(5, 80)
			await(t, 20*time.Second, func() bool {
				return strings.Contains(seen.String(), "enlarge the terminal to see them")
			}, "the resize is detected")

			require.NoError(t, end(person, p.Process))
			require.NoError(t, p.Wait(), "the exit code is 0")
			after, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
			require.NoError(t, err)
			require.Equal(t, before, after)
			await(t, 20*time.Second, func() bool {
				return strings.Contains(seen.String(), "\x1b[?1049l")
			}, "the original screen is restored")
		})
	}
}
