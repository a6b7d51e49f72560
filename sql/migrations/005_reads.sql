-- What applications and operators read.
{{ template "functions/pending_count.sql" . }}

create view pgdispatch.workspace_statistics as
select w.id as workspace_id,
       w.name,
       w.plan,
       w.paused,
       coalesce(w.max_concurrent_workflows, t.max_concurrent_workflows) as max_concurrent_workflows,
       waiting.items + held.unanswered as waiting,
       held.claimed,
       held.running,
       least(waiting.oldest, held.oldest_unanswered) as oldest_waiting_since
from pgdispatch.workspaces w
join pgdispatch.workspace_tiers t on t.plan = w.plan
cross join lateral (
    select count(*) as items, min(q.created_at) as oldest
    from pgdispatch.workflow_execution_queue q
    where q.workspace_id = w.id and q.status = 'PENDING' and not q.outcome_unknown
) waiting
cross join lateral (
    select count(*) filter (where q.status = 'CLAIMED') as claimed,
           count(*) filter (where q.status = 'DISPATCHED') as running,
           count(*) filter (where q.status = 'PENDING') as unanswered,
           min(q.created_at) filter (where q.status = 'PENDING') as oldest_unanswered
    from pgdispatch.workflow_execution_queue q
    where q.workspace_id = w.id and q.holds_slot
) held;

comment on view pgdispatch.workspace_statistics is
    'Per workspace: items waiting (due or not), claimed, running, the limit in force, and since when the oldest waits.';

create view pgdispatch.dead_letters as
select q.id, q.execution_id, q.workspace_id, q.workflow_definition_id, q.priority, q.params,
       q.attempt_count, q.failure_count, q.last_error, q.created_at, q.dispatched_at, q.finished_at,
       e.status as execution_status, e.run_id
from pgdispatch.workflow_execution_queue q
left join pgdispatch.workflow_executions e on e.id = q.execution_id
where q.status = 'FAILED';

comment on view pgdispatch.dead_letters is
    'Items that failed for good. execution_status says how the workflow ended; it is null or FAILED without a run_id where none was started.';

create index workflow_execution_queue_dead on pgdispatch.workflow_execution_queue (finished_at) where status = 'FAILED';

---- create above / drop below ----

drop index pgdispatch.workflow_execution_queue_dead;
drop view pgdispatch.dead_letters;
drop view pgdispatch.workspace_statistics;
drop function pgdispatch.pending_count(uuid);
