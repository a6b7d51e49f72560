package claim_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/claim"
	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/pgdispatch/pgdispatch/internal/storetest"
	"github.com/pgdispatch/pgdispatch/sql/sqltest"
)

func TestClaim_DoesNotTakeAHiddenDefinitionForAMissingOne(t *testing.T) {
	for _, table := range []string{"workflow_definitions", "workflow_definition_versions"} {
		for _, key := range []string{"", "order"} { // the statement for a single queue, and the procedure
			t.Run(table+key, func(t *testing.T) {
				b := storetest.New(t)
				url := sqltest.Login(t, b.Conns.Config().ConnString(), "in role pgdispatch_dispatcher")
				role := storetest.On(t, &sqltest.Shop{Conns: sqltest.Pool(t, url), Shop: b.Shop.Shop}, "role")
				problems := func() (all []claim.Problem, single bool) {
					b.Execute(`insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params,
						limit_key) select workspace_id, id, '{}', nullif($1::text, '') from pgdispatch.workflow_definitions
						where workspace_id = $2::text::uuid limit 1`, key, b.Shop.Shop)
					batch := must.Get(role.Claim(t.Context(), 1)).In(t)
					for _, item := range batch.Items {
						all = append(all, item.Problem)
					}
					return all, batch.Statements.Plain == 1
				}
				problems() // begins the epoch, which the statement for a single queue needs
				b.Execute("alter table pgdispatch." + table + " enable row level security")
				found, single := problems()
				require.Equal(t, []claim.Problem{claim.RowsHidden}, found)
				require.Equal(t, key == "", single)
				b.Execute("create policy replicas on pgdispatch." + table + " to pgdispatch_dispatcher using (true)")
				found, _ = problems()
				require.Equal(t, []claim.Problem{""}, found)
			})
		}
	}
}
