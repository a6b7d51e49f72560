-- Blocks every claim and every settle in the middle of its transaction.
lock table pgdispatch.workflow_executions in share mode
