-- reads
-- $1 executions. Returns those that are recorded as running. A list, so that every plan reads only these rows.
select e.id::text, e.run_id, coalesce(e.namespace, '') as namespace
from pgdispatch.workflow_executions e
where e.id = any ($1::uuid[]) and e.status = 'RUNNING'
