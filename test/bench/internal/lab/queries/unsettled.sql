select count(*) from pgdispatch.workflow_execution_queue where status in ('PENDING', 'CLAIMED')
