// Package upgrade tests upgrades and downgrades with two real builds side by side: the one whose commit the file
// baseline names, and the present one.
package upgrade

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/process"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

const checkout = "../.."

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "pgdispatch-upgrade-*")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	builds.dir = dir
	code := sqltest.Run(m)
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// builds are the two binaries, built once for all tests.
var builds struct {
	dir  string
	once sync.Once
	err  error
}

// build is a binary and the source that it was built from.
type build struct{ name, binary, source string }

// both returns the build of the baseline and the present one.
func both(t *testing.T) (old, present build) {
	t.Helper()
	source := filepath.Join(builds.dir, "source")
	old = build{"baseline", filepath.Join(builds.dir, "pgdispatch-baseline"), source}
	present = build{"present", filepath.Join(builds.dir, "pgdispatch-present"), checkout}
	builds.once.Do(func() {
		if builds.err = extract(source); builds.err != nil {
			return
		}
		for _, b := range []build{old, present} {
			if builds.err = output(b.source, "go", "build", "-trimpath", "-buildvcs=false", "-o", b.binary,
				"./cmd/pgdispatch"); builds.err != nil {
				return
			}
		}
	})
	require.NoError(t, builds.err)
	return old, present
}

// extract writes the baseline's source to a new directory.
func extract(dir string) error {
	text, err := os.ReadFile("baseline")
	if err != nil {
		return fmt.Errorf("read the baseline's commit: %w", err)
	}
	commit := strings.TrimSpace(string(text))
	if err := output(checkout, "git", "cat-file", "-e", commit+"^{commit}"); err != nil {
		return fmt.Errorf("commit %s of test/upgrade/baseline is not in this clone: run `git fetch --unshallow`: %w",
			commit, err)
	}
	archive := filepath.Join(builds.dir, "source.tar")
	if err := output(checkout, "git", "archive", "--format=tar", "-o", archive, commit); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	return output(dir, "tar", "-xf", archive)
}

// output runs a program, whose output is in the error.
func output(dir string, program string, args ...string) error {
	command := exec.Command(program, args...)
	command.Dir = dir
	command.Env = process.Environment("CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, out)
	}
	return nil
}

// pgdispatch runs a command of the build on a database.
func (b build) pgdispatch(url string, args ...string) error {
	command := exec.Command(b.binary, args...)
	command.Env = process.Environment("DATABASE_URL=" + url)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("pgdispatch %s of the %s build: %w: %s", strings.Join(args, " "), b.name, err, out)
	}
	return nil
}
