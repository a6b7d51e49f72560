// Package sqltest gives tests a real Postgres: a private cluster for the process, and a fresh database for each test.
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
	// initTimeout bounds initdb.
	initTimeout = 60 * time.Second
	// startTimeout bounds the wait until a started server accepts connections.
	startTimeout = 30 * time.Second
	// stopTimeout bounds each of the three ways to stop a server, from the polite one to the last.
	stopTimeout = 10 * time.Second
	// startAttempts is how many ports are tried before giving up: a port that was free when it was
	// looked for may be taken a moment later.
	startAttempts = 5
	// readyPollInterval is how often the log of a starting server is looked at.
	readyPollInterval = 10 * time.Millisecond
	// logTailLines is how much of the server's log goes into an error.
	logTailLines = 20
)

// readyMessage is what Postgres logs once its sockets are open and recovery is over. The server runs
// with lc_messages=C, so the text does not depend on the machine.
const readyMessage = "database system is ready to accept connections"

// errPortTaken reports that another process took the port between choosing and using it.
var errPortTaken = errors.New("port already in use")

// Options says what StartCluster should differ in. The zero value is right for tests.
type Options struct {
	// BinDir holds initdb and postgres. Empty: FindBinDir decides.
	BinDir string
	// ParentDir is where the cluster's private directory is made. Empty: os.TempDir. When the caller
	// is root, the user that the server runs as must be able to enter it.
	ParentDir string
	// Settings override the server's settings by name, for example {"fsync": "on"}. The defaults give
	// up crash safety for speed, because nothing in a test has to survive its cluster.
	Settings map[string]string
	// Log receives one line for each step that takes time. Nil: nothing is written.
	Log io.Writer
}

// Cluster is a private Postgres server on 127.0.0.1 with its own data directory. It accepts the
// superuser postgres without a password, so it is for tests and demonstrations only. On Linux the
// server dies with the process that started it, even by kill -9; the directory it then leaves behind
// is removed by the next StartCluster.
type Cluster struct {
	// Port is the TCP port on 127.0.0.1.
	Port int
	// Dir is the private directory: data directory, log file and lock file. Stop removes it.
	Dir string
	// BinDir holds the server's programs, and usually psql.
	BinDir string

	server   *server
	lock     *os.File
	stopOnce sync.Once
	stopErr  error
}

// StartCluster makes a new cluster and returns when it accepts connections. ctx bounds the start only;
// the server runs until Stop. Starting takes one to three seconds, nearly all of it initdb's.
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
		parent = os.TempDir()
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

// URL is the connection URL of a database of the cluster, for the superuser. The databases postgres,
// template0 and template1 exist from the start.
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

// Exited is closed when the server process has ended, wanted or not.
func (c *Cluster) Exited() <-chan struct{} { return c.server.exited }

// PID is the process ID of the server, for tests that stop, freeze or kill it.
func (c *Cluster) PID() int { return c.server.cmd.Process.Pid }

// LogTail is the end of the server's log, for error messages. It is empty after Stop.
func (c *Cluster) LogTail() string { return logTail(c.LogPath()) }

// LogPath is the server's log. Stop removes it.
func (c *Cluster) LogPath() string { return filepath.Join(c.Dir, "postgres.log") }

// Stop shuts the server down in order (open connections are closed, the data is flushed) and removes
// the directory. Later calls return what the first one returned.
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

// start runs initdb and then the server, on another port if the first is taken after all.
func (c *Cluster) start(ctx context.Context, opts Options) error {
	account, err := serverAccount()
	if err != nil {
		return err
	}
	if err := account.own(c.Dir); err != nil {
		return fmt.Errorf("give the cluster directory to %s: %w", account.name, err)
	}
	logf := func(format string, args ...any) {
		if opts.Log != nil {
			_, _ = fmt.Fprintf(opts.Log, format+"\n", args...)
		}
	}
	logf("initdb in %s with %s", c.Dir, c.BinDir)
	if err := c.initdb(ctx, account); err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		if c.Port, err = freePort(ctx); err != nil {
			return err
		}
		logf("start postgres on port %d", c.Port)
		err = c.startServer(ctx, account, opts.Settings)
		if !errors.Is(err, errPortTaken) || attempt == startAttempts {
			return err
		}
	}
}

// initdb creates the data directory.
func (c *Cluster) initdb(ctx context.Context, account account) error {
	ctx, cancel := context.WithTimeoutCause(ctx, initTimeout, fmt.Errorf("initdb took longer than %s", initTimeout))
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(c.BinDir, "initdb"),
		"--pgdata", c.dataDir(), "--username", "postgres", "--auth", "trust",
		"--encoding", "UTF8", "--locale", "C", "--no-sync")
	c.prepare(cmd, account)
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("run initdb as %s: %w\n%s", account.name, err, out)
	}
	return nil
}

// startServer starts postgres and waits until it is ready. It leaves no process behind when it fails.
func (c *Cluster) startServer(ctx context.Context, account account, settings map[string]string) error {
	logFile, err := os.Create(c.LogPath())
	if err != nil {
		return fmt.Errorf("create server log: %w", err)
	}
	defer logFile.Close()
	args := []string{"-D", c.dataDir()}
	merged := serverSettings(c.Port, settings)
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		args = append(args, "-c", name+"="+merged[name])
	}
	cmd := exec.Command(filepath.Join(c.BinDir, "postgres"), args...)
	c.prepare(cmd, account)
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

// awaitReady returns when the server says that it accepts connections.
func (c *Cluster) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("postgres was not ready within %s", startTimeout))
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

// prepare makes cmd run as account, inside the cluster's directory, without any PG* variable that
// would point it at another cluster.
func (c *Cluster) prepare(cmd *exec.Cmd, account account) {
	cmd.Dir = c.Dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "PG") || strings.HasPrefix(variable, "LC_") || strings.HasPrefix(variable, "LANG")
	})
	cmd.Env = append(cmd.Env, "LC_ALL=C", "HOME="+c.Dir)
	cmd.SysProcAttr = account.attributes()
}

func (c *Cluster) dataDir() string { return filepath.Join(c.Dir, "data") }

// serverSettings merges the caller's settings over the defaults. Where the server listens is not for
// the caller to change: URL and Stop rely on it.
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
	maps.Copy(settings, overrides)
	settings["listen_addresses"] = "127.0.0.1"
	settings["port"] = strconv.Itoa(port)
	settings["unix_socket_directories"] = ""
	settings["logging_collector"] = "off"
	return settings
}

// freePort asks the kernel for a TCP port that nobody uses right now.
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

// logTail returns the last lines of a file, or nothing if it cannot be read.
func logTail(path string) string {
	log, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimRight(string(log), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-logTailLines):], "\n")
}
