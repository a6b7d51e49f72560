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

// BinDirVariable is the environment variable that names the directory of initdb and postgres.
const BinDirVariable = "PGDISPATCH_PG_BINDIR"

// errNoPostgres explains how to install Postgres.
var errNoPostgres = errors.New(`find Postgres: no directory with both initdb and postgres
  Debian, Ubuntu:  apt-get install postgresql
  Fedora, RHEL:    dnf install postgresql-server
  macOS:           brew install postgresql
  elsewhere:       set ` + BinDirVariable + ` to the directory that holds initdb and postgres`)

// packageDirs are where packages install the server's programs outside the PATH.
var packageDirs = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/opt/homebrew/opt/postgresql*/bin",
	"/usr/local/opt/postgresql*/bin",
}

// FindBinDir returns the directory of initdb and postgres. It uses PGDISPATCH_PG_BINDIR if set, otherwise the PATH,
// pg_config, or the newest of the usual package directories, in this order.
func FindBinDir(ctx context.Context) (string, error) {
	if dir := os.Getenv(BinDirVariable); dir != "" {
		if !hasServer(dir) {
			return "", errors.New("find Postgres: " + BinDirVariable + "=" + dir + " does not hold initdb and postgres")
		}
		return dir, nil
	}
	var candidates []string
	if path, err := exec.LookPath("initdb"); err == nil {
		// The PATH may contain only symlinks to these two. psql is next to their targets.
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

// hasServer reports whether dir contains initdb and postgres.
func hasServer(dir string) bool {
	for _, program := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(dir, program)); err != nil {
			return false
		}
	}
	return true
}

var number = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)

// newestFirst sorts directories by the version number in their names, newest first. Those without one go last.
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
