package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/process"
)

// goneTimeout is how long the processes of a killed server may take to end.
const goneTimeout = 10 * time.Second

// Node is a Patroni and its Postgres.
type Node struct {
	// Name is its name in Patroni.
	Name string
	// Port and API are the ports of Postgres and of Patroni's REST API.
	Port, API int

	cluster *Cluster
	config  string
	dir     string
	patroni *process.Process
	frozen  bool
}

func (c *Cluster) newNode(name string) (n *Node, err error) {
	n = &Node{Name: name, cluster: c, dir: filepath.Join(c.dir, name)}
	if err := os.Mkdir(n.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make directory of %s: %w", name, err)
	}
	if err := c.own(n.dir); err != nil {
		return nil, err
	}
	for _, port := range []*int{&n.Port, &n.API} {
		if *port, err = process.FreePort("127.0.0.1"); err != nil {
			return nil, err
		}
	}

	binDir, err := exec.Command("pg_config", "--bindir").Output()
	if err != nil {
		return nil, fmt.Errorf("find Postgres: %w", err)
	}
	n.config, err = c.write(name+".yml", "patroni.yml", map[string]any{
		"Name": name, "API": n.API, "Port": n.Port, "Etcd": c.etcdAddress, "TTL": ttl, "Sync": c.Sync,
		"BinDir": strings.TrimSpace(string(binDir)), "Data": n.data(), "Dir": n.dir,
	})
	return n, err
}

func (n *Node) data() string           { return filepath.Join(n.dir, "data") }
func (n *Node) address() string        { return loopback(n.Port) }
func (n *Node) api(path string) string { return "http://" + loopback(n.API) + path }

// Start starts Patroni, which starts or adopts its Postgres.
func (n *Node) Start() (err error) {
	n.patroni, err = n.cluster.run(n.Name, "patroni", n.config)
	return err
}

// KillPatroni kills Patroni alone. Its Postgres lives on.
func (n *Node) KillPatroni() error { return n.patroni.Kill() }

// KillPostgres kills the main process of Postgres and waits until its children have ended.
func (n *Node) KillPostgres() error {
	pid, err := n.postmaster()
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill Postgres of %s: %w", n.Name, err)
	}
	return nil
}

// postmaster returns the process ID of Postgres' main process.
func (n *Node) postmaster() (int, error) {
	text, err := os.ReadFile(filepath.Join(n.data(), "postmaster.pid"))
	if err != nil {
		return 0, fmt.Errorf("find Postgres of %s: %w", n.Name, err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil || !slices.Contains(n.processes(), pid) {
		return 0, fmt.Errorf("find Postgres of %s: process %q does not use its data", n.Name, line)
	}
	return pid, nil
}

// Kill kills Patroni and all processes of its Postgres, and waits until they are gone.
func (n *Node) Kill() (err error) {
	if n.patroni != nil {
		err = n.patroni.Kill()
	}
	for deadline := time.Now().Add(goneTimeout); time.Now().Before(deadline); time.Sleep(interval) {
		left := n.processes()
		if len(left) == 0 {
			return err
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
	return errors.Join(err, fmt.Errorf("kill %s: its Postgres is still there after %s", n.Name, goneTimeout))
}

// Freeze stops Patroni and then all processes of its Postgres, those included that begin meanwhile.
func (n *Node) Freeze() error {
	n.frozen = true
	if err := n.patroni.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for stopped := []int(nil); ; {
		found := n.processes()
		if len(found) > 0 && !slices.ContainsFunc(found, func(pid int) bool { return !slices.Contains(stopped, pid) }) {
			return nil
		}
		for _, pid := range found {
			_ = syscall.Kill(pid, syscall.SIGSTOP) // it may have ended
		}
		stopped = found
	}
}

// Thaw lets everything that Freeze has stopped go on, Postgres first: for a moment it accepts writes.
func (n *Node) Thaw() error {
	for _, pid := range n.processes() {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	n.frozen = false
	return n.patroni.Signal(syscall.SIGCONT)
}

// processes returns the IDs of all processes that use the server's data: their working directory is there.
func (n *Node) processes() (found []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		dir, err := os.Readlink(filepath.Join("/proc", entry.Name(), "cwd"))
		if err == nil && strings.TrimSuffix(dir, " (deleted)") == n.data() && !zombie(entry.Name()) {
			found = append(found, pid)
		}
	}
	return found
}

func zombie(pid string) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	return err != nil || strings.Contains(string(stat), ") Z ")
}
