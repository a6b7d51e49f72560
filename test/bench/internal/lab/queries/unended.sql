select count(*) from pgdispatch.workflow_execution_queue where status not in ('COMPLETED', 'FAILED', 'CANCELLED')
