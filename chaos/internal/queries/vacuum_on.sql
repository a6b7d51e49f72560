alter table pgdispatch.workflow_execution_queue reset (autovacuum_enabled);
alter table pgdispatch.workflow_executions reset (autovacuum_enabled);
alter table pgdispatch.lanes reset (autovacuum_enabled);
alter table pgdispatch.lane_book reset (autovacuum_enabled);
alter table pgdispatch.lane_hints reset (autovacuum_enabled);
