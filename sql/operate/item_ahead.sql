-- reads
-- $1 item, $2 at most. How many due items of its workspace are claimed before it: those of a higher priority, and those
-- of its own priority and limit key, or without one like it, that are due earlier. Looks at up to $2 of each.
with item as materialized (
    select q.id, q.workspace_id, q.priority, q.limit_key, q.run_at from pgdispatch.workflow_execution_queue q where q.id = $1::bigint
)
select count(*)
from (
    (select q.run_at
     from item i
     cross join lateral (
         select q.run_at from pgdispatch.workflow_execution_queue q
         where q.workspace_id = i.workspace_id and q.stage = 'WAITS' and q.run_at >= '-infinity' and q.priority > i.priority
         order by q.priority desc, q.limit_key, q.run_at, q.id limit $2::bigint
     ) q)
    union all
    (select q.run_at
     from item i
     cross join lateral (
         select q.run_at from pgdispatch.workflow_execution_queue q
         where i.limit_key is null and q.workspace_id = i.workspace_id and q.stage = 'WAITS' and q.run_at >= '-infinity'
           and q.priority = i.priority and q.limit_key is null and (q.run_at, q.id) < (i.run_at, i.id)
         order by q.limit_key, q.run_at, q.id limit $2::bigint
     ) q)
    union all
    (select q.run_at
     from item i
     cross join lateral (
         select q.run_at from pgdispatch.workflow_execution_queue q
         where q.workspace_id = i.workspace_id and q.stage = 'WAITS' and q.run_at >= '-infinity'
           and q.priority = i.priority and q.limit_key = i.limit_key and (q.run_at, q.id) < (i.run_at, i.id)
         order by q.limit_key, q.run_at, q.id limit $2::bigint
     ) q)
) n
where n.run_at <= clock_timestamp()
