-- What applications and operators read.

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

create view pgdispatch.failed_items as
select q.id, q.execution_id, q.workspace_id, q.workflow_definition_id, q.priority, q.params,
       q.attempt_count, q.failure_count, q.last_error, q.created_at, q.dispatched_at, q.finished_at,
       e.status as execution_status, e.run_id,
       q.replay_of,
       m.item_id is null or r.status is not distinct from 'CANCELLED' as open,
       m.mark, m.marked_at, m.marked_by, m.replay_id, r.execution_id as replay_execution_id, r.status as replay_status
from pgdispatch.workflow_execution_queue q
left join pgdispatch.workflow_executions e on e.id = q.execution_id
left join pgdispatch.dead_letter_marks m on m.item_id = q.id
left join pgdispatch.workflow_execution_queue r on r.id = m.replay_id
where q.stage = 'DEAD';

comment on view pgdispatch.failed_items is
    'Items that failed permanently. open: not replayed or discarded, or the replay was withdrawn. Otherwise mark, marked_at and marked_by tell what was done, when and by whom.';

create view pgdispatch.dead_letters as
select f.id, f.execution_id, f.workspace_id, f.workflow_definition_id, f.priority, f.params,
       f.attempt_count, f.failure_count, f.last_error, f.created_at, f.dispatched_at, f.finished_at,
       f.execution_status, f.run_id, f.replay_of
from pgdispatch.failed_items f
where f.open;

comment on view pgdispatch.dead_letters is
    'Items that failed permanently and are neither replayed nor discarded. execution_status is how the workflow ended; null, or FAILED without a run_id, means that no workflow was started.';

create view pgdispatch.stalled as
select s.kind, s.namespace, s.name, s.executions, s.detail, s.since
from pgdispatch.stalls s
where case s.kind
          when 'EXECUTION' then exists (select from pgdispatch.workflow_executions e where e.id = s.name::uuid and e.status in ('STARTING', 'RUNNING'))
          else exists (select from pgdispatch.workflow_executions e join pgdispatch.workflow_definitions d on d.id = e.workflow_definition_id
                       where e.finished_at is null and d.task_queue = s.name and coalesce(e.namespace, '') = s.namespace)
      end;

comment on view pgdispatch.stalled is
    'Stalled work: task queues that no worker polls, and executions whose workflow task fails repeatedly. Updated about once a minute.';

-- For clients that name every column of an insert. It shows only what its own transaction has enqueued, so that an
-- object can be read back. It reads as its owner, to whom no policy applies.
create view pgdispatch.enqueue with (security_barrier) as
select q.id, q.execution_id, q.workspace_id, q.workflow_definition_id, q.status, q.priority, q.run_at, q.params, q.idempotency_key, q.traceparent,
       q.attempt_count, q.last_error, q.created_at, q.claimed_by, q.claimed_at, q.lease_expires_at, q.dispatched_at, q.finished_at, q.start_options,
       q.limit_key
from pgdispatch.workflow_execution_queue q
where q.stage = 'WAITS' and q.enqueue_xid = pg_current_xact_id_if_assigned();

comment on view pgdispatch.enqueue is
    'For inserts by clients that name every column: only the columns that a client may set are used. Shows the items that this transaction has enqueued.';
