package sqltest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// BinDirVariable is the environment variable that says where initdb and postgres are.
const BinDirVariable = "PGDISPATCH_PG_BINDIR"

// errNoPostgres tells a reader without Postgres what to do about it.
var errNoPostgres = errors.New(`find Postgres: no directory with both initdb and postgres
  Debian, Ubuntu:  apt-get install postgresql
  Fedora, RHEL:    dnf install postgresql-server
  macOS:           brew install postgresql
  elsewhere:       set ` + BinDirVariable + ` to the directory that holds initdb and postgres`)

// packageDirs are where packages put a server's programs without putting them on the PATH.
var packageDirs = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/opt/homebrew/opt/postgresql*/bin",
	"/usr/local/opt/postgresql*/bin",
}

// FindBinDir finds the directory of initdb and postgres: the one that PGDISPATCH_PG_BINDIR names, the
// PATH's, pg_config's, or the newest of the places where packages put them.
func FindBinDir(ctx context.Context) (string, error) {
	if dir := os.Getenv(BinDirVariable); dir != "" {
		if !hasServer(dir) {
			return "", errors.New("find Postgres: " + BinDirVariable + "=" + dir + " does not hold initdb and postgres")
		}
		return dir, nil
	}
	var candidates []string
	if path, err := exec.LookPath("initdb"); err == nil {
		// The PATH may hold links only to these two; psql is beside what they point to.
		if target, err := filepath.EvalSymlinks(path); err == nil {
			path = target
		}
		candidates = append(candidates, filepath.Dir(path))
	}
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		candidates = append(candidates, strings.TrimSpace(string(out)))
	}
	var packaged []string
	for _, pattern := range packageDirs {
		dirs, _ := filepath.Glob(pattern)
		packaged = append(packaged, dirs...)
	}
	candidates = append(candidates, newestFirst(packaged)...)
	for _, dir := range candidates {
		if hasServer(dir) {
			return dir, nil
		}
	}
	return "", errNoPostgres
}

// hasServer says whether dir holds the two programs that a cluster needs.
func hasServer(dir string) bool {
	for _, program := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(dir, program)); err != nil {
			return false
		}
	}
	return true
}

var number = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)

// newestFirst sorts directories by the version number in their names; those without one go last.
func newestFirst(dirs []string) []string {
	version := func(dir string) float64 {
		v, _ := strconv.ParseFloat(number.FindString(dir), 64)
		return v
	}
	return slices.SortedStableFunc(slices.Values(dirs), func(a, b string) int {
		switch va, vb := version(a), version(b); {
		case va > vb:
			return -1
		case va < vb:
			return 1
		default:
			return 0
		}
	})
}
