package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
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

// Credential returns the user that the server runs as if the harness is root, because Postgres refuses to run as root.
// Otherwise it returns nil.
func Credential() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	var missing error
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			missing = errors.Join(missing, err)
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return nil, fmt.Errorf("read user %s: %w", name, err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, fmt.Errorf("find a user to run postgres as, which refuses root: %w", missing)
}
