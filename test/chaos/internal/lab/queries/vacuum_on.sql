alter table pgdispatch.workflow_execution_queue reset (autovacuum_enabled);
alter table pgdispatch.workflow_executions reset (autovacuum_enabled);
alter table pgdispatch.marks reset (autovacuum_enabled);
alter table pgdispatch.mark_trim reset (autovacuum_enabled);
alter table pgdispatch.rates reset (autovacuum_enabled);
