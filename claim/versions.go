package claim

import (
	"context"

	"github.com/google/uuid"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/pgdispatch/pgdispatch/sql"
)

// mostRemembered is how many bytes of node IDs a replica remembers. Beyond that it forgets all of them.
const mostRemembered = 16 << 20

// version is a version of a definition. Its revision changes with every update of its row.
type version struct{ id, revision string }

// versions remembers the node IDs of definition versions, so that claims need not return them with every item.
type versions struct {
	nodeIDs map[version][]byte
	bytes   int
	// epoch is when they were read: after a crash of Postgres, the revision of a lost update can be used again.
	epoch uuid.UUID
}

// begin forgets all versions if they are of another epoch. Nil is none.
func (v *versions) begin(epoch *uuid.UUID) {
	if now := postgres.OrZero(epoch); now != v.epoch {
		*v = versions{epoch: now}
	}
}

// add remembers the node IDs of a version.
func (v *versions) add(of version, nodeIDs []byte) {
	if v.bytes += len(nodeIDs); v.bytes > mostRemembered || v.nodeIDs == nil {
		v.nodeIDs, v.bytes = map[version][]byte{}, len(nodeIDs)
	}
	v.nodeIDs[of] = nodeIDs
}

// readNodeIDs sets the node IDs of the items of an answer. It reads those that the memory lacks.
func (s *Store) readNodeIDs(ctx context.Context, a *claimAnswer) error {
	v := &s.memory.versions
	v.begin(a.standing.Epoch)
	var missing []string
	var of []int // the items that lack them
	for n, version := range a.versions {
		nodeIDs, known := v.nodeIDs[version]
		if a.items[n].NodeIDs = nodeIDs; !known && version.id != "" {
			missing, of = append(missing, version.id), append(of, n)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	rows, err := postgres.Read[struct{ ID, Revision, NodeIDs string }](ctx, s.Pool, "read node IDs", sql.Text("node_ids"),
		missing)
	if err != nil {
		return err
	}
	found := map[string][]byte{}
	for _, row := range rows {
		found[row.ID] = []byte(row.NodeIDs)
		v.add(version{row.ID, row.Revision}, found[row.ID])
	}
	for _, n := range of {
		item := &a.items[n]
		if item.NodeIDs = found[a.versions[n].id]; item.NodeIDs == nil && item.Problem == "" {
			item.Problem = NoVersion // deleted since the claim
		}
	}
	return nil
}
