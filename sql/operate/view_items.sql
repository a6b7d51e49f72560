-- reads
-- $1 status, or UNANSWERED, $2 workspaces, $3 definition's ID or name, $4 part of the error, case-insensitive (null:
-- any); enqueued since $5 or, if null, since $6 ago; until $7 or $8, likewise; $9 only items before this ID; $10 at most.
-- Looks at up to $11 items of each index, and returns how many it looked at and their lowest ID. Newest first.
with looked as materialized (
    (select q.id from pgdispatch.workflow_execution_queue q
     where coalesce($1::text, 'CANCELLED') in ('COMPLETED', 'CANCELLED') and q.id < $9::bigint order by q.id desc limit $11::bigint)
    union all
    (select q.id from pgdispatch.workflow_execution_queue q
     where $1::text = 'FAILED' and q.stage = 'DEAD' order by q.finished_at desc limit $11::bigint)
    union all
    (select q.id from pgdispatch.workflow_execution_queue q
     where q.stage in ('HOLDS', 'DOUBT') and q.status = $1::text
         and ($1::text = 'CLAIMED' or $1::text = 'DISPATCHED' and $2::text[] is null)
         and q.lease_token >= case $1::text when 'CLAIMED' then (select t.leased_from from pgdispatch.mark_trim t) else 0 end
     order by q.lease_token desc limit $11::bigint)
    union all
    (select q.id from pgdispatch.workflow_execution_queue q
     where $1::text in ('PENDING', 'UNANSWERED') and q.stage = 'DOUBT' limit $11::bigint)
    union all
    (select q.id from pgdispatch.workflow_execution_queue q
     where $1::text = 'PENDING' and $2::text[] is null and q.stage = 'WAITS' and q.enqueue_xid >= '0'
     order by q.enqueue_xid desc limit $11::bigint)
    union all
    (select o.id from unnest($2::text[]::uuid[]) as w (id)
     cross join lateral (
         (select q.id from pgdispatch.workflow_execution_queue q
          where $1::text = 'PENDING' and q.workspace_id = w.id and q.stage = 'WAITS' and q.run_at >= '-infinity'
          limit $11::bigint)
         union all
         (select q.id from pgdispatch.workflow_execution_queue q
          where $1::text = 'DISPATCHED' and q.workspace_id = w.id and q.stage in ('HOLDS', 'DOUBT') and q.status = 'DISPATCHED'
          limit $11::bigint)
     ) o limit $11::bigint)
), found as (
    select q.id
    from looked l
    cross join lateral (select q.* from pgdispatch.workflow_execution_queue q where q.id = l.id offset 0) q -- per row
    where q.id < $9::bigint and ($1::text is null or q.status = $1::text or $1::text = 'UNANSWERED' and q.stage = 'DOUBT')
      and ($2::text[] is null or q.workspace_id = any ($2::text[]::uuid[]))
      and ($3::text is null or q.workflow_definition_id::text = lower($3::text)
           or (select d.name from pgdispatch.workflow_definitions d where d.id = q.workflow_definition_id) = $3::text)
      and ($4::text is null or position(lower($4::text) in lower(q.last_error)) > 0)
      and q.created_at between coalesce($5::timestamptz, clock_timestamp() - $6::interval, '-infinity')
          and coalesce($7::timestamptz, clock_timestamp() - $8::interval, 'infinity')
    order by q.id desc limit $10::bigint
)
select f.id, n.looked, n.lowest
from (select count(*) as looked, min(l.id) as lowest from looked l) n
left join found f on true
order by f.id desc
