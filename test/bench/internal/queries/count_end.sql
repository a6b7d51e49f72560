-- The end of the one workflow that runs.
select count(pgdispatch.finish(e.id, 'COMPLETED')) from pgdispatch.workflow_executions e where e.watcher = 'bench' and e.finished_at is null
