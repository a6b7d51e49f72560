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
