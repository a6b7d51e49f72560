-- reads
-- $1 executions. Those that run, as far as is known here. By a list, so that whatever the planner believes, it reads these only.
select e.id::text, e.run_id, coalesce(e.namespace, '')
from pgdispatch.workflow_executions e
where e.id = any ($1::uuid[]) and e.status = 'RUNNING'
