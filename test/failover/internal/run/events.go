package run

import (
	"context"
	"time"

	"github.com/pgdispatch/pgdispatch/test/failover/internal/cluster"
)

const (
	// away is how long etcd does not answer.
	away = 30 * time.Second
	// apart is how long a killed or frozen former primary stays so after the promotion. If its Postgres lives, there are
	// two primaries meanwhile.
	apart = 5 * time.Second
)

// AtOnce is the first event of each cluster: a switchover right after `migrate up`.
const AtOnce = "switchover after migrate up"

// kind is something that can be done to a cluster under load.
type kind struct {
	name string
	do   func(ctx context.Context, c *cluster.Cluster, leader *cluster.Node) error
}

var kinds = []kind{
	{"switchover", func(ctx context.Context, c *cluster.Cluster, _ *cluster.Node) error { return c.Switchover(ctx) }},
	{"Postgres killed", func(_ context.Context, _ *cluster.Cluster, leader *cluster.Node) error {
		return leader.KillPostgres()
	}},
	{"node killed", func(ctx context.Context, c *cluster.Cluster, leader *cluster.Node) error {
		return promoted(ctx, c, leader, leader.Kill, leader.Start)
	}},
	{"Patroni killed alone", func(ctx context.Context, c *cluster.Cluster, leader *cluster.Node) error {
		return promoted(ctx, c, leader, leader.KillPatroni, leader.Start)
	}},
	{"etcd away", func(ctx context.Context, c *cluster.Cluster, _ *cluster.Node) error {
		if err := c.FreezeEtcd(true); err != nil {
			return err
		}
		if err := pause(ctx, away); err != nil {
			return err
		}
		return c.FreezeEtcd(false)
	}},
	{"primary frozen", func(ctx context.Context, c *cluster.Cluster, leader *cluster.Node) error {
		return promoted(ctx, c, leader, leader.Freeze, leader.Thaw)
	}},
}

// promoted takes the leader away, waits for the promotion of another node, and brings the leader back a while later.
func promoted(ctx context.Context, c *cluster.Cluster, leader *cluster.Node, remove, bring func() error) error {
	if err := remove(); err != nil {
		return err
	}
	if err := c.AwaitOther(ctx, leader); err != nil {
		return err
	}
	if err := pause(ctx, apart); err != nil {
		return err
	}
	return bring()
}

func pause(ctx context.Context, length time.Duration) error {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
