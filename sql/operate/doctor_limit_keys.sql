-- reads
-- $1 at most this many items that hold slots and that wait are looked at, $2 at most this many rows. The limit keys of
-- these items that have no limit, with the item's workspace.
select n.limit_key as key, n.workspace_id::text
from (
    (select q.limit_key, q.workspace_id from pgdispatch.workflow_execution_queue q
     where q.stage in ('HOLDS', 'DOUBT') and q.lease_token >= 0 order by q.lease_token desc limit $1::bigint)
    union
    select e.limit_key, e.workspace_id from ({{ template "parts/earliest.sql" "$1::bigint" }}) e
) n
where n.limit_key is not null
  and not exists (select from pgdispatch.limits l where l.key = n.limit_key and l.workspace_id = n.workspace_id)
  and not exists (select from pgdispatch.limits l where l.key = n.limit_key and l.workspace_id is null)
order by n.limit_key, n.workspace_id limit $2::bigint
