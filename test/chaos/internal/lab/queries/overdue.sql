-- $1 how old. Items that ended so long ago.
select count(*)::integer from pgdispatch.workflow_execution_queue q
where q.status in ('COMPLETED', 'FAILED', 'CANCELLED') and q.finished_at < now() - $1::interval
