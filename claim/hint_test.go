package claim

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

// Nothing waited when the workflow ended, so nobody was told.
func TestANotifiedItemIsClaimedThoughTheWorkspaceSeemedFull(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one := b.NewWorkspace("one", 1)
	b.Insert(one, 1)
	batch, err := b.Claim(t.Context(), 5)
	require.NoError(t, err)
	require.Len(t, batch.Items, 1)
	_, err = b.Settle(t.Context(), Dispatched, []Settlement{{ID: batch.Items[0].ID, Token: batch.Items[0].Token}})
	require.NoError(t, err)
	b.Execute("select pgdispatch.finish($1, 'COMPLETED')", batch.Items[0].ExecutionID)

	b.Insert(one, 1)
	hint := sqltest.Scalar[string](b.Shop, `select format('%s:0:%s', w.wake_number,
		(extract(epoch from now()) * 1000000)::bigint) from pgdispatch.workspaces w where w.id = $1::uuid`, one)
	_, _, isName := parseName(hint)
	require.True(t, isName)
	batch, _, err = b.SettleAndClaim(t.Context(), nil, Wanted{AtMost: 5, Named: []string{hint}, Quiet: true})
	require.NoError(t, err)
	require.Len(t, batch.Items, 1, fmt.Sprint("hint ", hint))
}
