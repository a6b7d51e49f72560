alter table pgdispatch.workflow_execution_queue set (autovacuum_enabled = off);
alter table pgdispatch.workflow_executions set (autovacuum_enabled = off);
alter table pgdispatch.lanes set (autovacuum_enabled = off);
alter table pgdispatch.lane_book set (autovacuum_enabled = off);
alter table pgdispatch.lane_hints set (autovacuum_enabled = off);
