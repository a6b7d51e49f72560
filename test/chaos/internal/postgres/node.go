// Package postgres runs a private server that can be killed and restarted, and standbys of it.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgdispatch/pgdispatch/internal/process"
)

const (
	// prepareTimeout bounds initdb and pg_basebackup.
	prepareTimeout = 60 * time.Second
	// startTimeout bounds the wait until a started server answers, including crash recovery.
	startTimeout = 40 * time.Second
	// stopTimeout bounds each way to stop a server.
	stopTimeout = 15 * time.Second
	// orphanInterval is how often Kill looks for the server's children.
	orphanInterval = 20 * time.Millisecond
	// connectTimeout bounds one attempt to connect.
	connectTimeout = 2 * time.Second
	// replicationName is the application_name of a standby's replication connection.
	replicationName = "chaos_standby"
)

// settings apply to every node. Commits survive the death of the server, which the harness causes. They need not
// survive the death of the machine, which would cost a flush per commit.
var settings = map[string]string{
	"fsync":                               "off",
	"full_page_writes":                    "on",
	"max_connections":                     "120",
	"superuser_reserved_connections":      "5",
	"shared_buffers":                      "128MB",
	"track_commit_timestamp":              "on",
	"track_functions":                     "pl",
	"wal_level":                           "replica",
	"max_wal_senders":                     "5",
	"wal_keep_size":                       "256MB",
	"max_wal_size":                        "512MB",
	"max_prepared_transactions":           "20",
	"hot_standby_feedback":                "off",
	"lc_messages":                         "C",
	"listen_addresses":                    "127.0.0.1",
	"unix_socket_directories":             "",
	"logging_collector":                   "off",
	"wal_receiver_status_interval":        "1s",
	"wal_retrieve_retry_interval":         "200ms",
	"restart_after_crash":                 "on",
	"log_min_error_statement":             "panic",
	"checkpoint_timeout":                  "5min",
	"synchronous_standby_names":           "",
	"log_line_prefix":                     "%m [%p] %a ",
	"idle_in_transaction_session_timeout": "0",
}

// Node is a server, running or not, with its data.
type Node struct {
	// Port is its TCP port on 127.0.0.1.
	Port int
	// Name identifies the server in messages.
	Name string
	// Clock is how far the server's clock is ahead of the machine's, from its next start on.
	Clock time.Duration
	// Settings replace the harness's own settings from its next start on.
	Settings map[string]string

	small   bool // its directories are disks of their own
	dir     string
	binDir  string
	user    *syscall.Credential
	process *process.Process
}

// New creates the data of a server in its own directory below parent. It does not start the server.
func New(ctx context.Context, parent, name string) (*Node, error) {
	n, err := blank(ctx, parent, name)
	if err != nil {
		return nil, err
	}
	return n, n.prepare(ctx, "initdb", "--pgdata", n.data(), "--waldir", n.wal(), "--username", "postgres",
		"--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync")
}

// Standby copies a running node into a standby that follows it through address. It does not start the standby.
func Standby(ctx context.Context, parent, name, address string) (*Node, error) {
	n, err := blank(ctx, parent, name)
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("read address of the primary: %w", err)
	}
	source := fmt.Sprintf("host=%s port=%s user=postgres application_name=%s", host, port, replicationName)
	return n, n.prepare(ctx, "pg_basebackup", "--pgdata", n.data(), "--waldir", n.wal(), "--dbname", source,
		"--write-recovery-conf", "--checkpoint", "fast", "--wal-method", "stream", "--no-sync")
}

func blank(ctx context.Context, parent, name string) (*Node, error) {
	binDir, err := findBinDir(ctx)
	if err != nil {
		return nil, err
	}
	user, err := process.ServerCredential()
	if err != nil {
		return nil, err
	}
	n := &Node{Name: name, dir: filepath.Join(parent, name), binDir: binDir, user: user}
	if err := os.Mkdir(n.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make directory of %s: %w", name, err)
	}
	if user != nil {
		if err := os.Chown(n.dir, int(user.Uid), int(user.Gid)); err != nil {
			return nil, fmt.Errorf("give directory of %s to the server's user: %w", name, err)
		}
	}
	if err := n.mount(); err != nil {
		return nil, err
	}
	if n.Port, err = process.FreePort("127.0.0.1"); err != nil {
		return nil, err
	}
	return n, nil
}

func (n *Node) prepare(ctx context.Context, program string, args ...string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, prepareTimeout,
		fmt.Errorf("%s took longer than %s", program, prepareTimeout))
	defer cancel()
	if !filepath.IsAbs(program) {
		program = filepath.Join(n.binDir, program)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = n.dir, process.Environment("LC_ALL=C")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: n.user}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run %s for %s: %w\n%s", program, n.Name, err, out)
	}
	return nil
}

// Start starts the server and returns when it answers. A standby answers as soon as it accepts reads.
func (n *Node) Start(ctx context.Context) error {
	if n.Running() {
		return nil
	}
	args := []string{"-D", n.data(), "-c", "port=" + strconv.Itoa(n.Port)}
	all := maps.Clone(settings)
	maps.Copy(all, n.Settings)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if name != "synchronous_standby_names" { // set with ALTER SYSTEM, which the command line would override
			args = append(args, "-c", name+"="+all[name])
		}
	}
	env, err := n.clock()
	if err != nil {
		return err
	}
	// The audit subtracts it, so that its times are the machine's.
	args = append(args, "-c", fmt.Sprintf("chaos.ahead=%d seconds", int(n.Clock.Seconds())))
	// SIGQUIT is an immediate shutdown, which also ends the server's child processes.
	n.process, err = process.Start(process.Spec{
		Name: n.Name, Program: filepath.Join(n.binDir, "postgres"), Args: args, Dir: n.dir, LogPath: n.LogPath(),
		Env: process.Environment(append(env, "LC_ALL=C")...), Credential: n.user, DeathSignal: syscall.SIGQUIT,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not within %s", startTimeout))
	defer cancel()
	return n.process.Await(ctx, func() error {
		conn, err := n.Connect(ctx, "postgres")
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
}

// Running reports whether the server's process is running.
func (n *Node) Running() bool { return n.process != nil && n.process.Running() }

// Kill kills the server's main process with SIGKILL and waits until its children have exited. None of them can
// complete anything.
func (n *Node) Kill() error {
	if err := n.process.Kill(); err != nil {
		return err
	}
	return n.awaitPortFree()
}

// Stop stops the server. SIGINT is a fast shutdown, SIGQUIT an immediate one.
func (n *Node) Stop(how syscall.Signal) error {
	if !n.Running() {
		return nil
	}
	if err := n.process.Signal(how); err != nil {
		return err
	}
	if !n.process.EndsWithin(stopTimeout) {
		return errors.Join(fmt.Errorf("stop %s: still there after %s", n.Name, stopTimeout), n.process.Kill())
	}
	return nil
}

// awaitPortFree waits until orphaned children have released the data. Postgres refuses to start before.
func (n *Node) awaitPortFree() error {
	deadline := time.Now().Add(stopTimeout)
	for time.Now().Before(deadline) {
		if !n.orphaned() {
			return nil
		}
		time.Sleep(orphanInterval)
	}
	return fmt.Errorf("kill %s: its children are still there after %s", n.Name, stopTimeout)
}

// orphaned reports whether a process of a killed server still uses its data.
func (n *Node) orphaned() bool { return len(n.processes()) > 0 }

// processes returns the IDs of all processes that use the server's data.
func (n *Node) processes() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		dir, err := os.Readlink(filepath.Join("/proc", entry.Name(), "cwd"))
		if err == nil && dir == n.data() && !zombie(entry.Name()) {
			found = append(found, pid)
		}
	}
	return found
}

func zombie(pid string) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	return err != nil || strings.Contains(string(stat), ") Z ")
}

// PID returns the process ID of the server's main process.
func (n *Node) PID() int { return n.process.PID }

// Connect opens a session as the superuser.
func (n *Node) Connect(ctx context.Context, database string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(n.URL(database) + "&application_name=chaos" + Patient)
	if err != nil {
		return nil, fmt.Errorf("read address of %s: %w", n.Name, err)
	}
	config.ConnectTimeout = connectTimeout
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", n.Name, err)
	}
	return conn, nil
}

// Patient is appended to a connection URL. It disables the role's timeouts for these sessions.
const Patient = "&statement_timeout=0&lock_timeout=0&idle_session_timeout=0&idle_in_transaction_session_timeout=0"

// Address returns host:port.
func (n *Node) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(n.Port)) }

// URL returns the superuser's connection URL of a database.
func (n *Node) URL(database string) string { return URL(n.Address(), database) }

// URL returns the superuser's connection URL of a database at a host:port.
func URL(address, database string) string {
	return "postgres://postgres@" + address + "/" + database + "?sslmode=disable"
}

// LogPath returns the path of the server's log.
func (n *Node) LogPath() string { return n.dir + ".log" }

func (n *Node) data() string { return filepath.Join(n.dir, "disk", "data") }
