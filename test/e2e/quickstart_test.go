package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/process"
)

// quickStartTimeout bounds everything that a new user types, with the build of what changed since the last one.
const quickStartTimeout = 10 * time.Minute

// A block that ends with one of these commands is typed in a terminal of its own, where it runs until the end. The user
// goes on when it has printed the text.
var foreverCommands = map[string]string{
	"bin/devstack up":     "Ctrl-C ends both",
	"bin/pgdispatch run":  "Listening",
	"bin/devstack worker": "Ctrl-C ends it",
	"bin/worker":          "Started Worker",
}

var (
	typed     = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")
	shown     = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")
	changing  = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-\S{22}|127\.0\.0\.1:\d+`)
	completed = regexp.MustCompile(`(?ms)^1 +COMPLETED +Acme +order .*^2 +COMPLETED +"sent to ann@example.com"$`)
)

// Runs every command of the page as printed, in a clone of this tree, then those of docs/clients in Go and psql.
func TestANewUserGetsToACompletedWorkflowByTheQuickStartAlone(t *testing.T) {
	t.Parallel()
	page, clients := readPage(t, "docs/quickstart.md"), readPage(t, "docs/clients/README.md")
	origin, work := t.TempDir(), t.TempDir()
	commit(t, checkout, origin)
	script := quickStartScript(t, page, work) + blocks(t, clients)[0] +
		firstCommand(t, "enqueue.go", "//") + firstCommand(t, "enqueue.sql", "--") +
		"bin/pgdispatch items wait 3 --timeout 1m\n"

	ctx, cancel := context.WithTimeout(t.Context(), quickStartTimeout)
	defer cancel()
	terminal := exec.CommandContext(ctx, "bash", "-c", script)
	terminal.Dir = work
	terminal.Env = process.Environment("PSQLRC=/dev/null", "PGDISPATCH_PG_BINDIR="+os.Getenv("PGDISPATCH_PG_BINDIR"),
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url."+origin+".insteadOf",
		"GIT_CONFIG_VALUE_0=https://github.com/pgdispatch/pgdispatch")
	terminal.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	terminal.Cancel = func() error { return syscall.Kill(-terminal.Process.Pid, syscall.SIGTERM) }
	terminal.WaitDelay = time.Minute
	out, err := terminal.CombinedOutput()
	require.NoError(t, err, "%s\n%s", out, logs(t, work))
	require.Regexp(t, completed, string(out))
	workflow := regexp.MustCompile(`(?m)^execution-\S{36}$`).FindAllString(string(out), -1)
	require.Len(t, workflow, 2, "of two clients\n%s", out)
	require.Equal(t, workflow[0], workflow[1], "the second enqueues the same order")
	expected := shown.FindStringSubmatch(page)
	require.NotNil(t, expected)
	printed, err := os.ReadFile(filepath.Join(work, "devstack worker.log"))
	require.NoError(t, err)
	mask := func(text string) string { return changing.ReplaceAllString(text, "…") }
	require.True(t, strings.HasPrefix(mask(string(printed)), mask(expected[1])), "the worker prints\n%s", printed)
	require.NoFileExists(t, filepath.Join(work, "pgdispatch", "bin", "devstack.env"), "devstack up has ended")
}

// quickStartScript returns the commands of the page as one script. What runs for ever writes to a log in work, and is
// interrupted at the end.
func quickStartScript(t *testing.T, page, work string) string {
	t.Helper()
	script, forever := "set -euo pipefail\ntrap 'kill $(jobs -p); wait' EXIT\n", 0
	for _, block := range blocks(t, page) {
		lines := strings.Split(strings.TrimSuffix(block, "\n"), "\n")
		last := lines[len(lines)-1]
		ready, runs := foreverCommands[last]
		if !runs {
			script += block
			continue
		}
		forever++
		lines[len(lines)-1] = "exec " + last
		log := filepath.Join(work, strings.TrimPrefix(last, "bin/")+".log")
		script += fmt.Sprintf("(\n%s\n) >'%s' 2>&1 &\nuntil grep -q '%s' '%s'; do kill -0 $!; sleep 0.1; done\n",
			strings.Join(lines, "\n"), log, ready, log)
	}
	require.Equal(t, len(foreverCommands), forever)
	return script
}

// blocks returns what a page says to type.
func blocks(t *testing.T, page string) []string {
	t.Helper()
	var all []string
	for _, block := range typed.FindAllStringSubmatch(page, -1) {
		all = append(all, block[1])
	}
	require.NotEmpty(t, all)
	return all
}

// firstCommand returns the command in the first line of a client's program.
func firstCommand(t *testing.T, file, comment string) string {
	t.Helper()
	line, _, _ := strings.Cut(readPage(t, "docs/clients/"+file), "\n")
	command, found := strings.CutPrefix(line, comment+" ")
	require.True(t, found, line)
	command, _, _ = strings.Cut(command, ", with ")
	return command + "\n"
}

// commit makes a repository of a tree as it is, with what is not committed.
func commit(t *testing.T, tree, origin string) {
	t.Helper()
	built := map[string]bool{".git": true, "bin": true, "dist": true, ".cache": true}
	entries, err := os.ReadDir(tree)
	require.NoError(t, err)
	for _, entry := range entries {
		from, to := filepath.Join(tree, entry.Name()), filepath.Join(origin, entry.Name())
		switch {
		case built[entry.Name()]:
		case entry.IsDir():
			require.NoError(t, os.CopyFS(to, os.DirFS(from)))
		default:
			text, err := os.ReadFile(from)
			require.NoError(t, err)
			info, err := entry.Info()
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(to, text, info.Mode().Perm()))
		}
	}
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "--all"},
		{"-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "--message", "Everything"}} {
		out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", origin}, args...)...).CombinedOutput()
		require.NoError(t, err, string(out))
	}
}

// logs returns what the commands in other terminals have printed.
func logs(t *testing.T, work string) string {
	t.Helper()
	var all strings.Builder
	files, err := fs.Glob(os.DirFS(work), "*.log")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(work, file))
		require.NoError(t, err)
		fmt.Fprintf(&all, "%s:\n%s\n", file, text)
	}
	return all.String()
}
