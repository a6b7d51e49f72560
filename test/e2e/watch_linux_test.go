package e2e

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/pgdispatch/pgdispatch/internal/process"
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
	program := binary(t)
	for name, end := range map[string]func(person *os.File, p *process.Process) error{
		"q":       func(person *os.File, _ *process.Process) error { _, err := person.WriteString("q"); return err },
		"Ctrl-C":  func(person *os.File, _ *process.Process) error { _, err := person.WriteString("\x03"); return err },
		"SIGTERM": func(_ *os.File, p *process.Process) error { return p.Signal(syscall.SIGTERM) },
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
			seen := &process.Buffer{}
			go func() { _, _ = io.Copy(seen, person) }() // until the terminal is closed

			p, err := process.Start(process.Spec{
				Name: "the watch", Program: program, Args: []string{"status", "--watch", "--interval", "200ms"},
				Env:     process.Environment("DATABASE_URL="+d.url, "TERM=xterm", "NO_COLOR=1"),
				LogPath: filepath.Join(t.TempDir(), "log"), Terminal: &process.Terminal{In: terminal, Out: terminal},
			})
			require.NoError(t, err)
			await(t, 20*time.Second, func() bool { return strings.Contains(seen.String(), "shop") }, "the workspace is shown")
			require.Contains(t, seen.String(), "\x1b[?1049h")
			require.NotContains(t, seen.String(), "\x1b[31", "NO_COLOR")
			size(5, 80)
			require.NoError(t, p.Signal(syscall.SIGWINCH)) // as the kernel sends it to whom the terminal controls
			await(t, 20*time.Second, func() bool {
				return strings.Contains(seen.String(), "scroll or enlarge the terminal to see them")
			}, "the resize is detected")

			require.NoError(t, end(person, p))
			require.True(t, p.EndsWithin(time.Minute))
			require.Zero(t, p.ExitCode(), p.Log())
			after, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
			require.NoError(t, err)
			require.Equal(t, before, after)
			await(t, 20*time.Second, func() bool {
				return strings.Contains(seen.String(), "\x1b[?1049l")
			}, "the original screen is restored")
		})
	}
}

func TestItemsWaitSaysOnATerminalThatItWaits(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	item := d.enqueues()
	person, terminal := openPty(t)
	seen := &process.Buffer{}
	go func() { _, _ = io.Copy(seen, person) }() // until the terminal is closed

	command := exec.CommandContext(t.Context(), binary(t), "items", "wait", item)
	command.Env, command.Stderr = process.Environment("DATABASE_URL="+d.url), terminal
	require.NoError(t, command.Start())
	await(t, 20*time.Second, func() bool {
		return strings.Contains(seen.String(), "waiting for the end of 1 item; Ctrl-C stops waiting")
	}, "it says so")
	d.types("items", "cancel", item, "--yes")
	require.Error(t, command.Wait())
	require.Equal(t, 3, command.ProcessState.ExitCode(), "it is cancelled")
}
