-- Signals and stop requests by operators.

-- name: signal_send
-- writes signals and the audit log
-- $1 execution, $2 name, $3 payload, $4 who, $5 workspaces (null: all). Returns the signal's ID, or nothing for an execution
-- of another workspace.
with sent as materialized (
    select pgdispatch.signal(e.id, $2::text, $3::text::jsonb) as id
    from (select $1::text::uuid as id
          where $5::text[] is null or exists (
              select from pgdispatch.workflow_execution_queue q
              where q.execution_id = $1::text::uuid and q.workspace_id = any ($5::text[]::uuid[]))
          offset 0) e
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $4::text, 'executions signal', 'execution ' || $1::text, jsonb_build_object('signal', s.id, 'name', $2::text) from sent s
)
select s.id from sent s

-- name: signal_send_to
-- writes signals and the audit log
-- $1 workspace, $2 workflow ID that its item names, $3 name, $4 payload, $5 who. Returns the signal's ID.
with sent as materialized (
    select pgdispatch.signal_workflow($1::text::uuid, $2::text, $3::text, $4::text::jsonb) as id
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $5::text, 'executions signal', 'workspace ' || $1::text,
           jsonb_build_object('signal', s.id, 'name', $3::text, 'workflow_id', $2::text) from sent s
)
select s.id from sent s

-- name: signal_list
-- reads
-- $1 execution (null: all), $2 states (null: all), $3 at most, $4 workspaces (null: all). Newest first.
select s.id, s.execution_id::text,
       coalesce((select q.workflow_id from pgdispatch.workflow_execution_queue q where q.execution_id = s.execution_id),
                'execution-' || s.execution_id) as workflow_id,
       s.name, s.payload, s.sent_at, s.sent_by, s.state, s.next_try_at = 'infinity' as waits, s.settled_at, s.tries,
       coalesce(s.error, '') as error, coalesce(s.run_id, '') as run_id
from pgdispatch.signals s
where ($1::text is null or s.execution_id = $1::text::uuid) and ($2::text[] is null or s.state = any ($2::text[]))
  and ($4::text[] is null or exists (
      select from pgdispatch.workflow_execution_queue q
      where q.execution_id = s.execution_id and q.workspace_id = any ($4::text[]::uuid[])))
order by s.id desc
limit $3

-- name: signal_resend
-- writes signals and the audit log
-- $1 signal, $2 its execution (null: any), $3 who, $4 workspaces (null: all). Returns nothing if the signal is of another
-- execution or workspace.
with sent as materialized (
    select r.id, r.execution_id, r.former, r.name
    from (select $1::bigint as id
          where ($2::text is null
                 or exists (select from pgdispatch.signals s where s.id = $1::bigint and s.execution_id = $2::text::uuid))
            and ($4::text[] is null or exists (
                select from pgdispatch.signals s join pgdispatch.workflow_execution_queue q on q.execution_id = s.execution_id
                where s.id = $1::bigint and q.workspace_id = any ($4::text[]::uuid[])))) s
    cross join lateral pgdispatch.resend_signal(s.id) r
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $3::text, 'executions resend', 'execution ' || s.former,
           jsonb_build_object('signal', $1::bigint, 'name', s.name, 'sent_as', s.id, 'execution', s.execution_id)
    from sent s
)
select s.id, s.execution_id::text from sent s

-- name: stop_request
-- PENDING -> CANCELLED
-- $1 execution, $2 how: CANCEL or TERMINATE, $3 reason, $4 who, $5 workspaces (null: all). Returns the function's answer,
-- or nothing for an execution of another workspace.
select pgdispatch.request_stop(e.id, $2, $3, $4)
from (select $1::text::uuid as id
      where $5::text[] is null or exists (
          select from pgdispatch.workflow_execution_queue q
          where q.execution_id = $1::text::uuid and q.workspace_id = any ($5::text[]::uuid[]))
      offset 0) e

-- name: stalled
-- reads
-- $1 at most, $2 workspaces (null: any). What runs and does not progress, most executions first. Task queues belong to
-- no workspace.
select s.kind, s.namespace, s.name, s.executions, s.detail, clock_timestamp() - s.since as since
from pgdispatch.stalled s
where $2::text[] is null or (s.kind = 'EXECUTION' and exists (
    select from pgdispatch.workflow_executions e
    where e.id = case s.kind when 'EXECUTION' then s.name::uuid end and e.workspace_id = any ($2::text[]::uuid[])))
order by s.executions desc, s.since, s.namespace, s.name
limit $1
