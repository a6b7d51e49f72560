-- reads
-- $1 ids. Which of them nobody has locked.
select q.id
from pgdispatch.workflow_execution_queue q
where q.id = any ($1::bigint[])
for update skip locked
