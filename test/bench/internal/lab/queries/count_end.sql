-- Ends the only running workflow.
select count(pgdispatch.finish(e.id, 'COMPLETED')) from pgdispatch.workflow_executions e where e.watcher = 'bench' and e.finished_at is null
