// Package sqltest provides tests with a real Postgres: a private cluster per process and a fresh database per test.
package sqltest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// initTimeout limits initdb.
	initTimeout = 60 * time.Second
	// startTimeout limits the wait for a started server to accept connections.
	startTimeout = 30 * time.Second
	// stopTimeout limits each of the three ways to stop a server, from fast shutdown to SIGKILL.
	stopTimeout = 10 * time.Second
	// startAttempts is the number of ports to try. A free port may be taken by another process before the server
	// starts.
	startAttempts = 5
	// readyPollInterval is how often the log of a starting server is read.
	readyPollInterval = 10 * time.Millisecond
	// logTailLines is the number of log lines included in an error.
	logTailLines = 20
)

// readyMessage begins what Postgres logs once it accepts connections, or as a standby read-only ones. The server runs
// with lc_messages=C, so the text does not depend on the machine.
const readyMessage = "database system is ready to accept"

// errPortTaken means that another process took the port after it was chosen.
var errPortTaken = errors.New("port already in use")

// Options configures StartCluster. The zero value is suitable for tests.
type Options struct {
	// BinDir is the directory of initdb and postgres. If empty, FindBinDir is used.
	BinDir string
	// ParentDir is where the cluster's private directory is created. If empty, that is in memory or
	// os.TempDir: see defaultParent. If the caller is root, the server's user must be able to enter it.
	ParentDir string
	// Settings override server settings by name, for example {"fsync": "on"}. The defaults trade crash safety for
	// speed, because no test data outlives its cluster.
	Settings map[string]string
	// Environment has further variables of the server's environment, as "name=value".
	Environment []string
	// Log receives a line for each slow step. Nil disables it.
	Log io.Writer
}

// Cluster is a private Postgres server on 127.0.0.1 with its own data directory. It accepts the superuser postgres
// without a password, so use it only for tests and demos. On Linux the server dies with the process that started it,
// even on kill -9. The next StartCluster then removes the leftover directory.
type Cluster struct {
	// Port is the TCP port on 127.0.0.1.
	Port int
	// Dir is the private directory with the data directory, log file and lock file. Stop removes it.
	Dir string
	// BinDir is the directory of the server's programs, usually including psql.
	BinDir string

	server   *server
	account  account
	settings map[string]string // of the caller
	// environment is the caller's, for the server
	environment []string
	lock        *os.File
	stopOnce    sync.Once
	stopErr     error
}

// StartCluster creates a cluster and returns once it accepts connections. ctx limits the start only; the server runs
// until Stop. Starting takes one to three seconds, mostly for initdb.
func StartCluster(ctx context.Context, opts Options) (*Cluster, error) {
	binDir := opts.BinDir
	if binDir == "" {
		var err error
		if binDir, err = FindBinDir(ctx); err != nil {
			return nil, err
		}
	}
	parent := opts.ParentDir
	if parent == "" {
		parent = defaultParent(serverSettings(0, opts.Settings))
	}
	sweepAbandoned(parent)
	dir, lock, err := makeDir(parent)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Dir: dir, BinDir: binDir, lock: lock}
	if err := c.start(ctx, opts); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// URL returns the superuser's connection URL for a database of the cluster. The databases postgres, template0 and
// template1 exist from the start.
func (c *Cluster) URL(database string) string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.User("postgres"),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(c.Port)),
		Path:     "/" + database,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Exited returns a channel that is closed when the server process has ended for any reason.
func (c *Cluster) Exited() <-chan struct{} { return c.server.exited }

// PID returns the server's process ID, for tests that stop, freeze or kill it.
func (c *Cluster) PID() int { return c.server.cmd.Process.Pid }

// LogTail returns the end of the server's log, for error messages. It is empty after Stop.
func (c *Cluster) LogTail() string { return logTail(c.LogPath()) }

// LogPath returns the path of the server's log. Stop removes the file.
func (c *Cluster) LogPath() string { return filepath.Join(c.Dir, "postgres.log") }

// Stop shuts the server down cleanly (it closes connections and flushes data) and removes the directory. Later calls
// return the first call's result.
func (c *Cluster) Stop() error {
	c.stopOnce.Do(func() {
		var err error
		if c.server != nil {
			err = c.server.stop()
		}
		if rmErr := os.RemoveAll(c.Dir); rmErr != nil {
			err = errors.Join(err, fmt.Errorf("remove cluster directory: %w", rmErr))
		}
		c.stopErr = errors.Join(err, c.lock.Close())
	})
	return c.stopErr
}

// start runs initdb and then the server. It tries another port if the chosen one was taken meanwhile.
func (c *Cluster) start(ctx context.Context, opts Options) error {
	var err error
	if c.account, err = serverAccount(); err != nil {
		return err
	}
	if err := c.account.own(c.Dir); err != nil {
		return fmt.Errorf("give the cluster directory to %s: %w", c.account.name, err)
	}
	c.settings, c.environment = opts.Settings, opts.Environment
	logf := func(format string, args ...any) {
		if opts.Log != nil {
			_, _ = fmt.Fprintf(opts.Log, format+"\n", args...)
		}
	}
	logf("initdb in %s with %s", c.Dir, c.BinDir)
	if err := c.initdb(ctx); err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		if c.Port, err = freePort(ctx); err != nil {
			return err
		}
		logf("start postgres on port %d", c.Port)
		err = c.startServer(ctx)
		if !errors.Is(err, errPortTaken) || attempt == startAttempts {
			return err
		}
	}
}

// initdb creates the data directory.
func (c *Cluster) initdb(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, initTimeout, fmt.Errorf("initdb took longer than %s", initTimeout))
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(c.BinDir, "initdb"),
		"--pgdata", c.dataDir(), "--username", "postgres", "--auth", "trust",
		"--encoding", "UTF8", "--locale", "C", "--no-sync")
	c.prepare(cmd)
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("run initdb as %s: %w\n%s", c.account.name, err, out)
	}
	return nil
}

// startServer starts postgres and waits until it is ready. On failure it leaves no process behind.
func (c *Cluster) startServer(ctx context.Context) error {
	logFile, err := os.Create(c.LogPath())
	if err != nil {
		return fmt.Errorf("create server log: %w", err)
	}
	defer logFile.Close()
	args := []string{"-D", c.dataDir()}
	merged := serverSettings(c.Port, c.settings)
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		args = append(args, "-c", name+"="+merged[name])
	}
	cmd := exec.Command(filepath.Join(c.BinDir, "postgres"), args...)
	c.prepare(cmd)
	cmd.Env = append(cmd.Env, c.environment...)
	cmd.Stdout, cmd.Stderr = logFile, logFile
	c.server, err = startProcess(cmd)
	if err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	if err := c.awaitReady(ctx); err != nil {
		stopErr := c.server.stop()
		c.server = nil
		return errors.Join(err, stopErr)
	}
	return nil
}

// awaitReady waits until the server accepts connections.
func (c *Cluster) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout,
		fmt.Errorf("postgres was not ready within %s", startTimeout))
	defer cancel()
	tick := time.NewTicker(readyPollInterval)
	defer tick.Stop()
	for {
		log, err := os.ReadFile(c.LogPath())
		if err != nil {
			return fmt.Errorf("read server log: %w", err)
		}
		if strings.Contains(string(log), readyMessage) {
			return nil
		}
		select {
		case <-c.server.exited:
			if strings.Contains(c.LogTail(), "Address already in use") {
				return fmt.Errorf("start postgres on port %d: %w", c.Port, errPortTaken)
			}
			return fmt.Errorf("start postgres: it exited (%w)\n%s", c.server.exitError(), c.LogTail())
		case <-ctx.Done():
			return fmt.Errorf("start postgres: %w\n%s", context.Cause(ctx), c.LogTail())
		case <-tick.C:
		}
	}
}

// prepare makes cmd run as the cluster's account in the cluster's directory, without PG* variables that could refer to
// another cluster.
func (c *Cluster) prepare(cmd *exec.Cmd) {
	cmd.Dir = c.Dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "PG") || strings.HasPrefix(variable, "LC_") || strings.HasPrefix(variable, "LANG")
	})
	cmd.Env = append(cmd.Env, "LC_ALL=C", "HOME="+c.Dir)
	cmd.SysProcAttr = c.account.attributes()
}

// memoryDir is Linux's file system in memory. A test's database is hundreds of small files, and on a disk the kernel
// spends more time on creating and removing them than Postgres does on its statements.
const memoryDir = "/dev/shm"

// memoryEnough is how much must be free in memoryDir. A package's tests keep a few hundred megabytes there.
const memoryEnough = 4 << 30

// defaultParent returns where a cluster with these settings is created. Data that need not survive a crash is kept in
// memory, where there is enough of it. TMPDIR, if set, decides.
func defaultParent(settings map[string]string) string {
	if os.Getenv("TMPDIR") == "" && settings["fsync"] == "off" && freeBytes(memoryDir) >= memoryEnough {
		return memoryDir
	}
	return os.TempDir()
}

func (c *Cluster) dataDir() string { return filepath.Join(c.Dir, "data") }

// serverSettings merges the caller's settings into the defaults. The caller cannot change where the server listens,
// because URL and Stop rely on it.
func serverSettings(port int, overrides map[string]string) map[string]string {
	settings := map[string]string{
		"fsync":                     "off",
		"full_page_writes":          "off",
		"max_connections":           "300",
		"shared_buffers":            "128MB",
		"track_commit_timestamp":    "on",
		"wal_level":                 "replica",
		"max_prepared_transactions": "20",
		"lc_messages":               "C",
	}
	if os.Getenv(PublicationVariable) != "" {
		settings["wal_level"] = "logical"
	}
	maps.Copy(settings, overrides)
	settings["listen_addresses"] = "127.0.0.1"
	settings["port"] = strconv.Itoa(port)
	settings["unix_socket_directories"] = ""
	settings["logging_collector"] = "off"
	return settings
}

// freePort asks the kernel for an unused TCP port.
func freePort(ctx context.Context) (int, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := l.Close(); err != nil {
		return 0, fmt.Errorf("release the free port: %w", err)
	}
	return port, nil
}

// logTail returns the last lines of a file, or "" if it cannot be read.
func logTail(path string) string {
	log, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimRight(string(log), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-logTailLines):], "\n")
}
