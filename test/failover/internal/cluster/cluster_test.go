package cluster

import (
	"encoding/json"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHealthy_WantsAllNodesOnThePrimarysTimeline(t *testing.T) {
	t.Parallel()
	const leader = `{"name": "node1", "role": "leader", "state": "running", "timeline": 2}`
	const standby = `{"name": "node2", "role": "replica", "state": "running", "timeline": 2, "lag": 0}`
	const synchronous = `{"name": "node3", "role": "sync_standby", "state": "streaming", "timeline": 2, "lag": 0}`
	for _, test := range []struct {
		third         string
		sync, healthy bool
	}{
		{synchronous, true, true},
		{standby, true, false},
		{standby, false, true},
		{`{"name": "node3", "role": "replica", "state": "running", "timeline": 1, "lag": 0}`, false, false},
		{`{"name": "node3", "role": "replica", "state": "running", "timeline": 2, "lag": 99999999}`, false, false},
		{`{"name": "node3", "role": "replica", "state": "starting", "lag": "unknown"}`, false, false},
		{`{"name": "node3", "role": "leader", "state": "stopped"}`, false, false},
	} {
		var members []member
		require.NoError(t, json.Unmarshal([]byte("["+leader+","+standby+","+test.third+"]"), &members))
		require.Equal(t, test.healthy, healthy(members, test.sync) == nil, "%+v", test)
	}
	require.Error(t, healthy(nil, false))
}

func TestProxy_AsksPatroniWhoIsPrimary(t *testing.T) {
	t.Parallel()
	c := &Cluster{dir: t.TempDir()}
	path, err := c.write("haproxy.cfg", "haproxy.cfg", map[string]any{"Address": "127.0.0.1:5000", "Nodes": []*Node{
		{Name: "node1", Port: 5001, API: 8001}, {Name: "node2", Port: 5002, API: 8002},
	}})
	require.NoError(t, err)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(text), "    option httpchk OPTIONS /primary\n")
	require.Contains(t, string(text), "    server node2 127.0.0.1:5002 check port 8002\n")
}

func TestNode_KillEndsEveryProcessInItsData(t *testing.T) {
	t.Parallel()
	n := &Node{Name: "node1", dir: t.TempDir()}
	require.NoError(t, os.Mkdir(n.data(), 0o700))
	child := exec.Command("sleep", "60")
	child.Dir = n.data()
	require.NoError(t, child.Start())
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()

	require.Equal(t, []int{child.Process.Pid}, n.processes())
	require.NoError(t, n.Kill())
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("it has not ended")
	}
	require.True(t, child.ProcessState.Sys().(syscall.WaitStatus).Signaled())
}
