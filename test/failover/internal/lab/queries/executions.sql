select execution_id::text from pgdispatch.workflow_execution_queue
