package postgres

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// binDirVariable names the directory of initdb and postgres. The product's tests use the same variable.
const binDirVariable = "PGDISPATCH_PG_BINDIR"

// findBinDir finds the server's programs: in the variable's directory, on the PATH, in pg_config's directory, or in
// the directories of packages.
func findBinDir(ctx context.Context) (string, error) {
	candidates := []string{os.Getenv(binDirVariable)}
	if path, err := exec.LookPath("initdb"); err == nil {
		if target, err := filepath.EvalSymlinks(path); err == nil {
			path = target
		}
		candidates = append(candidates, filepath.Dir(path))
	}
	if out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		candidates = append(candidates, strings.TrimSpace(string(out)))
	}
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin",
	} {
		dirs, _ := filepath.Glob(pattern)
		for i := range dirs {
			candidates = append(candidates, dirs[len(dirs)-1-i])
		}
	}
	for _, dir := range candidates {
		if dir == "" {
			continue
		}
		found := true
		for _, program := range []string{"initdb", "postgres", "pg_basebackup"} {
			if _, err := os.Stat(filepath.Join(dir, program)); err != nil {
				found = false
			}
		}
		if found {
			return dir, nil
		}
	}
	return "", errors.New("find Postgres: no directory with initdb, postgres and pg_basebackup; " +
		"install it or set " + binDirVariable)
}
