-- Items that are not due yet, and unanswered starts, have counts of their own.
create or replace view pgdispatch.workspace_statistics as
select w.id as workspace_id,
       w.name,
       w.plan,
       w.paused,
       coalesce(w.max_concurrent_workflows, t.max_concurrent_workflows) as max_concurrent_workflows,
       waiting.due as waiting,
       coalesce(claimed.items, 0) as claimed,
       holders.items - coalesce(claimed.items, 0) - coalesce(unanswered.items, 0) as running,
       waiting.oldest as oldest_waiting_since,
       waiting.items - waiting.due as scheduled,
       coalesce(unanswered.items, 0) as unanswered
from pgdispatch.workspaces w
join pgdispatch.workspace_tiers t on t.plan = w.plan
cross join lateral (
    select count(*) as items, count(*) filter (where q.run_at <= statement_timestamp()) as due,
           min(q.run_at) filter (where q.run_at <= statement_timestamp()) as oldest
    from pgdispatch.workflow_execution_queue q
    where q.workspace_id = w.id and q.stage = 'WAITS' and q.run_at >= '-infinity'
) waiting
cross join lateral (
    select count(*) as items from pgdispatch.workflow_execution_queue q where q.workspace_id = w.id and q.stage in ('HOLDS', 'DOUBT')
) holders
-- Few at any time, so each is read once for all workspaces.
left join (
    select q.workspace_id, count(*) as items from pgdispatch.workflow_execution_queue q
    where q.stage in ('HOLDS', 'DOUBT') and q.lease_token >= (select t.leased_from from pgdispatch.mark_trim t) and q.status = 'CLAIMED'
    group by q.workspace_id
) claimed on claimed.workspace_id = w.id
left join (
    select q.workspace_id, count(*) as items from pgdispatch.workflow_execution_queue q where q.stage = 'DOUBT' group by q.workspace_id
) unanswered on unanswered.workspace_id = w.id;

comment on view pgdispatch.workspace_statistics is
    'Per workspace: items that wait (due), are scheduled, unanswered, claimed and running, the effective limit, and since when the longest-due one has been due.';

---- create above / drop below ----

drop view pgdispatch.workspace_statistics;
create view pgdispatch.workspace_statistics as
select w.id as workspace_id,
       w.name,
       w.plan,
       w.paused,
       coalesce(w.max_concurrent_workflows, t.max_concurrent_workflows) as max_concurrent_workflows,
       waiting.items + coalesce(unanswered.items, 0) as waiting,
       coalesce(claimed.items, 0) as claimed,
       holders.items - coalesce(claimed.items, 0) - coalesce(unanswered.items, 0) as running,
       least(waiting.oldest, unanswered.oldest) as oldest_waiting_since
from pgdispatch.workspaces w
join pgdispatch.workspace_tiers t on t.plan = w.plan
cross join lateral (
    select count(*) as items, min(q.created_at) as oldest
    from pgdispatch.workflow_execution_queue q
    where q.workspace_id = w.id and q.stage = 'WAITS' and q.run_at >= '-infinity'
) waiting
cross join lateral (
    select count(*) as items from pgdispatch.workflow_execution_queue q where q.workspace_id = w.id and q.stage in ('HOLDS', 'DOUBT')
) holders
-- Few at any time, so each is read once for all workspaces.
left join (
    select q.workspace_id, count(*) as items from pgdispatch.workflow_execution_queue q
    where q.stage in ('HOLDS', 'DOUBT') and q.lease_token >= (select t.leased_from from pgdispatch.mark_trim t) and q.status = 'CLAIMED'
    group by q.workspace_id
) claimed on claimed.workspace_id = w.id
left join (
    select q.workspace_id, count(*) as items, min(q.created_at) as oldest from pgdispatch.workflow_execution_queue q
    where q.stage = 'DOUBT' group by q.workspace_id
) unanswered on unanswered.workspace_id = w.id;

comment on view pgdispatch.workspace_statistics is
    'Per workspace: waiting items (due or not), claimed and running items, the effective limit, and when the oldest waiting item was created.';
