-- reads
-- $1 item IDs. Returns those that have not ended.
select q.id from pgdispatch.workflow_execution_queue q where q.id = any ($1::bigint[]) and q.finished_at is null
