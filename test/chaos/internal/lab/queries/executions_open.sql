-- Executions that have not ended.
select count(*)::integer from pgdispatch.workflow_executions where status in ('STARTING', 'RUNNING')
