-- What applications and operators read.
{{ template "functions/pending_count.sql" . }}

create view pgdispatch.workspace_statistics as
select w.id as workspace_id,
       w.name,
       w.plan,
       w.paused,
       coalesce(w.max_concurrent_workflows, t.max_concurrent_workflows) as max_concurrent_workflows,
       waiting.items + coalesce(unanswered.items, 0) as waiting,
       coalesce(claimed.items, 0) as claimed,
       running.items as running,
       least(waiting.oldest, unanswered.oldest) as oldest_waiting_since
from pgdispatch.workspaces w
join pgdispatch.workspace_tiers t on t.plan = w.plan
cross join lateral (
    select count(*) as items, min(q.created_at) as oldest
    from pgdispatch.workflow_execution_queue q
    where q.workspace_id = w.id and q.status = 'PENDING' and not q.outcome_unknown and q.run_at >= '-infinity'
) waiting
cross join lateral (
    select count(*) as items from pgdispatch.workflow_execution_queue q where q.workspace_id = w.id and q.status = 'DISPATCHED'
) running
-- Few at any time, so each is read once for all workspaces.
left join (
    select q.workspace_id, count(*) as items from pgdispatch.workflow_execution_queue q
    where q.status = 'CLAIMED' group by q.workspace_id
) claimed on claimed.workspace_id = w.id
left join (
    select q.workspace_id, count(*) as items, min(q.created_at) as oldest from pgdispatch.workflow_execution_queue q
    where q.status = 'PENDING' and q.outcome_unknown group by q.workspace_id
) unanswered on unanswered.workspace_id = w.id;

comment on view pgdispatch.workspace_statistics is
    'Per workspace: items waiting (due or not), claimed, running, the limit in force, and since when the oldest waits.';

---- create above / drop below ----

drop view pgdispatch.workspace_statistics;
drop function pgdispatch.pending_count(uuid);
