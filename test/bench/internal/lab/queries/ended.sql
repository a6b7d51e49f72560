-- When each item's end was recorded.
select 'execution-' || execution_id, finished_at from pgdispatch.workflow_execution_queue where finished_at is not null
