-- reads
-- $1 at most this many limits, $2 at most this many waiting items are looked at. The first limits, with how many items
-- their workspace may run in a burst (null: a limit over all workspaces), and whether one of the items looked at waits
-- with their key.
with waits as materialized (
    select distinct n.limit_key, n.workspace_id
    from ({{ template "parts/earliest.sql" "$2::bigint" }}) n
    where n.limit_key is not null
)
select l.id, pgdispatch.burst_limit(coalesce(w.max_concurrent_workflows, t.max_concurrent_workflows),
           coalesce(w.max_burst_workflows, t.max_burst_workflows)) as workspace_max,
       exists (select from waits n where n.limit_key = l.key and (l.workspace_id is null or n.workspace_id = l.workspace_id)) as waits
from pgdispatch.limits l
left join pgdispatch.workspaces w on w.id = l.workspace_id
left join pgdispatch.workspace_tiers t on t.plan = w.plan
order by l.id limit $1::bigint
