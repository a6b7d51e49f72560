// Package cluster runs Debian's Patroni on loopback: three nodes, one etcd, and an HAProxy that leads to the primary.
package cluster

import (
	"context"
	"embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"text/template"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/process"
)

const (
	// nodes is how many there are: a primary, a synchronous standby and another one.
	nodes = 3
	// ttl is how many seconds a leader stays leader without renewing its key in etcd. Patroni renews it each second.
	ttl = 5
	// healthyTimeout bounds the wait until every node follows the primary. Patroni may have to copy a node again.
	healthyTimeout = 90 * time.Second
	// stuckAfter is when a cluster that is not healthy is taken for stuck: a healthy one needs some 10 s.
	stuckAfter = 20 * time.Second
	// interval is how often a wait looks.
	interval = 50 * time.Millisecond
	// askTimeout bounds one request to Patroni. A switchover is answered when it is done.
	askTimeout, switchTimeout = 2 * time.Second, 30 * time.Second
	// allowedLag is how many bytes a healthy standby may be behind.
	allowedLag = 1 << 20
)

//go:embed patroni.yml haproxy.cfg
var files embed.FS

var templates = template.Must(template.ParseFS(files, "*"))

// Cluster is a running cluster.
type Cluster struct {
	// Sync is Patroni's synchronous_mode, strictly: without a synchronous standby the primary acknowledges nothing.
	Sync bool
	// Nodes are the nodes, each of them primary at times.
	Nodes []*Node
	// Stuck is how often Patroni did not name a synchronous standby by itself: see AwaitHealthy.
	Stuck int

	dir           string
	user          *syscall.Credential
	etcd, haproxy *process.Process
	etcdAddress   string
	proxyAddress  string
}

// Missing returns the programs that a cluster needs and that are not on the PATH.
func Missing() (missing []string) {
	for _, program := range []string{"patroni", "etcd", "haproxy"} {
		if _, err := find(program); err != nil {
			missing = append(missing, program)
		}
	}
	return missing
}

// find looks for a program where a user's PATH may not lead: Debian has haproxy in /usr/sbin.
func find(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return exec.LookPath(filepath.Join("/usr/sbin", program))
	}
	return path, nil
}

// Start starts a cluster in a directory that exists, and returns when every node follows the primary.
func Start(ctx context.Context, dir string, sync bool) (c *Cluster, err error) {
	c = &Cluster{Sync: sync, dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()

	if c.user, err = process.ServerCredential(); err != nil {
		return c, err
	}
	if err := c.own(dir); err != nil {
		return c, err
	}
	if err := c.startEtcd(ctx); err != nil {
		return c, err
	}

	for n := range nodes {
		node, err := c.newNode(fmt.Sprintf("node%d", n+1))
		if err != nil {
			return c, err
		}
		c.Nodes = append(c.Nodes, node)
		if err := node.Start(); err != nil {
			return c, err
		}
	}
	if err := c.startProxy(); err != nil {
		return c, err
	}
	return c, c.AwaitHealthy(ctx)
}

// own gives a path to the servers' user.
func (c *Cluster) own(path string) error {
	if c.user == nil {
		return nil
	}
	if err := os.Chown(path, int(c.user.Uid), int(c.user.Gid)); err != nil {
		return fmt.Errorf("give %s to the servers' user: %w", path, err)
	}
	return nil
}

// run starts a program of the cluster as the servers' user.
func (c *Cluster) run(name, program string, args ...string) (*process.Process, error) {
	path, err := find(program)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w: run `make failover-tools`", program, err)
	}
	return process.Start(process.Spec{
		Name: name, Program: path, Args: args, Dir: c.dir, LogPath: filepath.Join(c.dir, name+".log"), Credential: c.user,
		Env: process.Environment("LC_ALL=C.UTF-8", "HOME="+c.dir, "PYTHONDONTWRITEBYTECODE=1"),
	})
}

// write writes a file from a template and returns its path.
func (c *Cluster) write(name, from string, values any) (string, error) {
	path := filepath.Join(c.dir, name)
	file, err := os.Create(path)
	if err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	err = templates.ExecuteTemplate(file, from, values)
	if err := errors.Join(err, file.Close()); err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	return path, nil
}

func (c *Cluster) startEtcd(ctx context.Context) (err error) {
	if c.etcdAddress, err = process.FreeAddress(); err != nil {
		return err
	}
	peer, err := process.FreeAddress()
	if err != nil {
		return err
	}

	clients, peers := "http://"+c.etcdAddress, "http://"+peer
	c.etcd, err = c.run("etcd", "etcd", "--data-dir", filepath.Join(c.dir, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls", clients, "--advertise-client-urls", clients,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default="+peers)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, healthyTimeout, errors.New("it does not answer"))
	defer cancel()
	return c.etcd.Await(ctx, func() error {
		return ask(ctx, http.MethodGet, clients+"/health", "", askTimeout, nil)
	})
}

func (c *Cluster) startProxy() (err error) {
	if c.proxyAddress, err = process.FreeAddress(); err != nil {
		return err
	}
	path, err := c.write("haproxy.cfg", "haproxy.cfg", struct {
		Address string
		Nodes   []*Node
	}{c.proxyAddress, c.Nodes})
	if err != nil {
		return err
	}
	c.haproxy, err = c.run("haproxy", "haproxy", "-db", "-f", path)
	return err
}

// Close ends everything.
func (c *Cluster) Close() (err error) {
	for _, p := range []*process.Process{c.haproxy, c.etcd} {
		if p != nil {
			err = errors.Join(err, p.Kill())
		}
	}
	for _, n := range c.Nodes {
		err = errors.Join(err, n.Kill())
	}
	return err
}

// ProxyURL is the database's URL at HAProxy, which leads to the primary.
func (c *Cluster) ProxyURL() string { return url(c.proxyAddress) + "&connect_timeout=2" }

// HostsURL is the database's URL with all nodes, of which a client takes the first that accepts writes.
func (c *Cluster) HostsURL() string {
	var hosts []string
	for _, n := range c.Nodes {
		hosts = append(hosts, n.address())
	}
	return url(strings.Join(hosts, ",")) + "&target_session_attrs=read-write&connect_timeout=2"
}

func url(addresses string) string {
	return "postgres://postgres@" + addresses + "/postgres?sslmode=disable"
}

// member is what Patroni reports of a node.
type member struct {
	Name     string          `json:"name"`
	Role     string          `json:"role"`
	State    string          `json:"state"`
	Timeline int             `json:"timeline"`
	Lag      json.RawMessage `json:"lag"` // bytes, or "unknown"
}

// leads reports whether the member is the leader, and accepts writes.
func (m member) leads() bool { return m.Role == "leader" && m.State == "running" }

// follows reports whether the member is a standby of the timeline, and close to the primary.
func (m member) follows(timeline int) bool {
	lag, err := strconv.Atoi(string(m.Lag))
	return m.Role != "leader" && (m.State == "running" || m.State == "streaming") && m.Timeline == timeline &&
		err == nil && lag <= allowedLag
}

// members asks the first node that answers.
func (c *Cluster) members(ctx context.Context) (members []member, err error) {
	for _, n := range c.Nodes {
		if n.frozen || !n.patroni.Running() {
			continue
		}
		var answer struct{ Members []member }
		if err = ask(ctx, http.MethodGet, n.api("/cluster"), "", askTimeout, &answer); err == nil {
			return answer.Members, nil
		}
	}
	return nil, fmt.Errorf("ask Patroni for its members: %w", err)
}

// Leader returns the node that is primary by Patroni's account, or nil.
func (c *Cluster) Leader(ctx context.Context) *Node {
	members, _ := c.members(ctx)
	for i, m := range members {
		if m.leads() {
			return c.node(members[i].Name)
		}
	}
	return nil
}

func (c *Cluster) node(name string) *Node {
	for _, n := range c.Nodes {
		if n.Name == name {
			return n
		}
	}
	return nil
}

// AwaitOther waits until another node than the given one is primary.
func (c *Cluster) AwaitOther(ctx context.Context, former *Node) error {
	return Await(ctx, healthyTimeout, "another node is primary", func() error {
		leader := c.Leader(ctx)
		if leader == nil || leader == former {
			return errors.New("there is none")
		}
		return ask(ctx, http.MethodGet, leader.api("/primary"), "", askTimeout, nil)
	})
}

// AwaitHealthy waits until there is a primary, every other node follows it, and one of them synchronously if it must.
// If the cluster is stuck, it removes Patroni's note of the synchronous standby, as an operator would: after a freeze
// Patroni 3.0 may abandon the promotion, return to the former primary, keep the note of the abandoned one, and refuse
// for ever to name a synchronous standby ("Synchronous replication key updated by someone else").
func (c *Cluster) AwaitHealthy(ctx context.Context) error {
	removeAt := time.Now().Add(stuckAfter)
	return Await(ctx, healthyTimeout, "every node follows the primary", func() error {
		members, err := c.members(ctx)
		if err == nil {
			err = healthy(members, c.Sync)
		}
		if err == nil || !c.Sync || time.Now().Before(removeAt) {
			return err
		}

		removeAt = time.Now().Add(stuckAfter)
		c.Stuck++
		return errors.Join(err, c.removeSync(ctx))
	})
}

// removeSync removes what Patroni has noted in etcd about the synchronous standby.
func (c *Cluster) removeSync(ctx context.Context) error {
	key := base64.StdEncoding.EncodeToString([]byte("/service/failover/sync"))
	err := ask(ctx, http.MethodPost, "http://"+c.etcdAddress+"/v3/kv/deleterange", fmt.Sprintf(`{"key": %q}`, key),
		askTimeout, nil)
	if err != nil {
		return fmt.Errorf("remove the note of the synchronous standby: %w", err)
	}
	return nil
}

func healthy(members []member, sync bool) error {
	timeline := -1
	for _, m := range members {
		if m.leads() {
			timeline = m.Timeline
		}
	}
	following, synchronous := 0, !sync
	for _, m := range members {
		if m.follows(timeline) {
			following++
		}
		synchronous = synchronous || m.Role == "sync_standby"
	}
	if following != nodes-1 || !synchronous {
		return fmt.Errorf("members are %+v", members)
	}
	return nil
}

// Await calls done until it returns nil, and fails after limit.
func Await(ctx context.Context, limit time.Duration, what string, done func() error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %s", limit))
	defer cancel()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		err := done()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w: %w", what, context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

// Switchover asks Patroni for another primary, and waits until it is one.
func (c *Cluster) Switchover(ctx context.Context) error {
	leader := c.Leader(ctx)
	if leader == nil {
		return errors.New("switch over: there is no primary")
	}
	body := fmt.Sprintf(`{"leader": %q}`, leader.Name)

	// Patroni refuses while it trusts no standby, such as right after a restart of the primary. Nothing has happened then.
	err := Await(ctx, healthyTimeout, "Patroni accepts a switchover", func() error {
		return ask(ctx, http.MethodPost, leader.api("/switchover"), body, switchTimeout, nil)
	})
	if err != nil {
		return fmt.Errorf("switch over: %w", err)
	}
	return c.AwaitOther(ctx, leader)
}

// FreezeEtcd stops etcd, which no longer answers, or lets it go on.
func (c *Cluster) FreezeEtcd(freeze bool) error {
	if freeze {
		return c.etcd.Signal(syscall.SIGSTOP)
	}
	return c.etcd.Signal(syscall.SIGCONT)
}

// ask sends an HTTP request and decodes the answer, unless it is nil.
func ask(ctx context.Context, method, url, body string, timeout time.Duration, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s %s: %s", method, url, response.Status)
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
