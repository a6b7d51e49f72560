package claim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/sql"
)

// nodeReads is a database that counts the reads of node IDs, and can do something before each.
type nodeReads struct {
	Database
	reads  int
	before func() error
}

func (d *nodeReads) Query(ctx context.Context, statement string, args ...any) (pgx.Rows, error) {
	if statement == sql.Text("node_ids") {
		d.reads++
		if d.before != nil {
			if err := d.before(); err != nil {
				return nil, err
			}
		}
	}
	return d.Database.Query(ctx, statement, args...)
}

// counting makes the bench's replica count its reads of node IDs.
func (b *bench) counting() *nodeReads {
	reads := &nodeReads{Database: b.Store.Pool}
	b.Store.Pool = reads
	return reads
}

// bothStatements runs a test with claim_plain and with the procedure.
func bothStatements(t *testing.T, test func(t *testing.T, b *bench)) {
	prepared := map[string]func(*bench){"plain": func(*bench) {}, "procedure": (*bench).byProcedure}
	must.Each(t, prepared, func(t *testing.T, prepare func(*bench)) {
		b := newBench(t)
		prepare(b)
		test(t, b)
	})
}

func TestNodeIDsOfAVersionAreReadOnce(t *testing.T) {
	bothStatements(t, func(t *testing.T, b *bench) {
		reads := b.counting()
		for range 3 {
			for _, item := range b.claimed(2) {
				require.JSONEq(t, `["n1", "n2"]`, string(item.NodeIDs))
				require.Empty(t, item.Problem)
			}
		}
		require.Equal(t, 1, reads.reads)
	})
}

func TestAChangedDefinitionAppliesToTheNextClaim(t *testing.T) {
	bothStatements(t, func(t *testing.T, b *bench) {
		old := b.claimed(1)[0]
		b.Execute(`update pgdispatch.workflow_definition_versions set graph = '{"nodes": [{"id": "changed"}]}'`)
		changed := b.claimed(1)[0]
		require.JSONEq(t, `["changed"]`, string(changed.NodeIDs))
		require.Equal(t, old.WorkflowDefinitionVersionID, changed.WorkflowDefinitionVersionID)

		b.Execute(`insert into pgdispatch.workflow_definition_versions (workflow_definition_id, version, graph)
			select id, 9, '{"nodes": [{"id": "new"}]}' from pgdispatch.workflow_definitions`)
		newest := b.claimed(1)[0]
		require.JSONEq(t, `["new"]`, string(newest.NodeIDs))
		require.NotEqual(t, old.WorkflowDefinitionVersionID, newest.WorkflowDefinitionVersionID)
	})
}

func TestItemsWhoseNodeIDsCannotBeReadWaitAgain(t *testing.T) {
	bothStatements(t, func(t *testing.T, b *bench) {
		reads := b.counting()
		reads.before = func() error { return errors.New("connection lost") }
		b.Insert(b.Shop.Shop, 3)
		_, err := b.Claim(t.Context(), 2)
		require.EqualError(t, err, "read node IDs: connection lost")
		require.Equal(t, 3, b.count("status = 'PENDING' and attempt_count = 0 and lost_lease_count = 0"))

		reads.before = nil
		batch := b.claim(3)
		require.Len(t, batch.Items, 3)
		for _, item := range batch.Items {
			require.JSONEq(t, `["n1", "n2"]`, string(item.NodeIDs))
		}
	})
}

func TestAnItemWhoseVersionWasDeletedSinceTheClaimIsNotStarted(t *testing.T) {
	b := newBench(t)
	b.counting().before = func() error {
		b.Execute("delete from pgdispatch.workflow_definition_versions")
		return nil
	}
	require.Equal(t, NoVersion, b.claimed(1)[0].Problem)
}

func TestVersionsOfAnotherEpochAreForgotten(t *testing.T) {
	b := newBench(t)
	reads := b.counting()
	b.claimed(1)
	b.claimed(1)
	require.Equal(t, 1, reads.reads)
	b.Execute("update pgdispatch.epoch set id = gen_random_uuid()") // as the first claim after a crash of Postgres
	b.claimed(1)
	b.claimed(1)
	require.Equal(t, 2, reads.reads)
}

func TestAClaimThatFindsAnotherEpochIsFollowedByALoad(t *testing.T) {
	b := newBench(t)
	b.Insert(b.Shop.Shop, 3)
	b.claim(1)
	b.Execute("update pgdispatch.epoch set id = gen_random_uuid()")
	batch := b.want(Wanted{AtMost: 1, Quiet: true})
	require.Len(t, batch.Items, 1)
	require.Zero(t, batch.LookAgainIn, "the crash may have lost what the memory knows")
	require.Empty(t, b.memory.seen)
	require.True(t, b.want(Wanted{AtMost: 1, Quiet: true}).Forgot)
	require.False(t, b.want(Wanted{AtMost: 1, Quiet: true}).Forgot, "it is told once")
}

// Nothing waits, so that no claim is sent.
func TestALoadThatFindsAnotherEpochTellsThatCommitsMayBeForgotten(t *testing.T) {
	b := newBench(t)
	require.False(t, b.want(Wanted{AtMost: 1, Look: true}).Forgot, "the first load knows of nothing before")
	b.Execute("delete from pgdispatch.epoch") // as a crash does
	require.True(t, b.want(Wanted{AtMost: 1, Look: true}).Forgot)
	require.False(t, b.want(Wanted{AtMost: 1, Look: true}).Forgot)
}

func TestMemoryOfVersionsIsBounded(t *testing.T) {
	t.Parallel()
	var v versions
	epoch := uuid.New()
	v.begin(&epoch)
	nodeIDs := []byte(strings.Repeat("x", 64<<10))
	for n := range 1000 {
		of := version{id: fmt.Sprint(n)}
		v.add(of, nodeIDs)
		require.Equal(t, nodeIDs, v.nodeIDs[of])
		require.LessOrEqual(t, len(v.nodeIDs)*len(nodeIDs), mostRemembered)
		require.Equal(t, len(v.nodeIDs)*len(nodeIDs), v.bytes)
	}
	v.begin(&epoch)
	require.NotEmpty(t, v.nodeIDs)
	v.begin(nil)
	require.Empty(t, v.nodeIDs)
}
