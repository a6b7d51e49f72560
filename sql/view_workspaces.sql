-- reads
-- $1 part of the name, whatever its case, or the ID (null: any); $2 the order: name, running, oldest or failures; $3, $4 and $5 rank,
-- name and ID of the last one that was shown (null: from the first); $6 at most. Of a workspace, no more than $7 items of a status
-- are counted, and of failures no more than the newest $8 of the last day, of all workspaces.
with failed as materialized (
    select n.workspace_id, count(*) as items
    from (select q.workspace_id from pgdispatch.workflow_execution_queue q where q.status = 'FAILED'
          and q.finished_at > now() - interval '1 day' order by q.finished_at desc limit $8::bigint) n
    group by 1
), page as materialized (
    (select w.id, w.name, 0::double precision as rank from pgdispatch.workspaces w
     where $2::text = 'name' and ($1::text is null or position(lower($1::text) in lower(w.name)) > 0 or w.id::text = lower($1::text))
       and (w.name collate "C", w.id) > (coalesce($4::text, ''), coalesce($5::text::uuid, '00000000-0000-0000-0000-000000000000'))
     order by w.name collate "C", w.id limit $6::bigint)
    union all
    (select w.id, w.name, r.rank
     from pgdispatch.workspaces w left join pgdispatch.lanes l on l.workspace_id = w.id left join failed f on f.workspace_id = w.id
     cross join lateral (
         select case $2::text when 'running' then -coalesce(l.active, 0) when 'failures' then -coalesce(f.items, 0)
                    else case when l.ready_priority is null then 'infinity' else extract(epoch from l.waiting_from) end end::double precision as rank
     ) r
     where $2::text <> 'name' and ($1::text is null or position(lower($1::text) in lower(w.name)) > 0 or w.id::text = lower($1::text))
       and ($3::double precision is null or (r.rank, w.name collate "C", w.id) > ($3::double precision, $4::text, $5::text::uuid))
     order by r.rank, w.name collate "C", w.id limit $6::bigint)
), claimed as materialized (
    select q.workspace_id, count(*) as items from pgdispatch.workflow_execution_queue q where q.status = 'CLAIMED' group by q.workspace_id
)
select w.id::text, w.name, w.plan, coalesce(w.max_concurrent_workflows, t.max_concurrent_workflows) as limit_in_force, w.paused,
       n.items as waiting, coalesce(c.items, 0) as claimed,
       (select count(*) from (select from pgdispatch.workflow_execution_queue q where q.workspace_id = p.id and q.status = 'DISPATCHED' limit $7::bigint) n) as running,
       clock_timestamp() - n.oldest_due as oldest_waiting, coalesce(f.items, 0) as failures, p.rank
from page p
join pgdispatch.workspaces w on w.id = p.id
join pgdispatch.workspace_tiers t on t.plan = w.plan
left join claimed c on c.workspace_id = p.id
left join failed f on f.workspace_id = p.id
cross join lateral pgdispatch.waiting_of(p.id, $7::integer) n
order by p.rank, p.name collate "C", p.id
