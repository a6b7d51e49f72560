-- writes row locks only
-- $1 ids. Returns those that are not locked.
select q.id
from pgdispatch.workflow_execution_queue q
where q.id = any ($1::bigint[])
for update skip locked
