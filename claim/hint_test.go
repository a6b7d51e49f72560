package claim

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// Nothing waited when the workflow ended, so nobody was told.
func TestANotifiedItemIsClaimedThoughTheWorkspaceSeemedFull(t *testing.T) {
	b := newBench(t)
	one := b.NewWorkspace("one", 1)
	b.Insert(one, 1)
	item := b.claim(5).Items[0]
	b.settle(Dispatched, settlementOf(item, Dispatched))
	b.Execute("select pgdispatch.finish($1, 'COMPLETED')", item.ExecutionID)

	b.Insert(one, 1)
	hint := sqltest.Scalar[string](b.Shop, `select format('%s:0:%s', w.wake_number,
		(extract(epoch from now()) * 1000000)::bigint) from pgdispatch.workspaces w where w.id = $1::uuid`, one)
	_, _, isName := parseName(hint)
	require.True(t, isName)
	require.Len(t, b.want(Wanted{AtMost: 5, Named: []string{hint}, Quiet: true}).Items, 1, hint)
}
