-- reads
-- $1 item, $2 at most. How many due items of its workspace are claimed before it: those of a higher priority, and those
-- of its own that are due earlier. Looks at up to $2 of each.
select count(*)
from (
    (select q.run_at
     from pgdispatch.workflow_execution_queue i
     cross join lateral (
         select q.run_at from pgdispatch.workflow_execution_queue q
         where q.workspace_id = i.workspace_id and q.stage = 'WAITS' and q.run_at >= '-infinity' and q.priority > i.priority
         order by q.priority desc, q.run_at, q.id limit $2::bigint
     ) q
     where i.id = $1::bigint)
    union all
    (select q.run_at
     from pgdispatch.workflow_execution_queue i
     cross join lateral (
         select q.run_at from pgdispatch.workflow_execution_queue q
         where q.workspace_id = i.workspace_id and q.stage = 'WAITS' and q.run_at >= '-infinity' and q.priority = i.priority
           and (q.run_at, q.id) < (i.run_at, i.id)
         order by q.run_at, q.id limit $2::bigint
     ) q
     where i.id = $1::bigint)
) n
where n.run_at <= clock_timestamp()
