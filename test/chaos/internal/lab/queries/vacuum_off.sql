alter table pgdispatch.workflow_execution_queue set (autovacuum_enabled = off);
alter table pgdispatch.workflow_executions set (autovacuum_enabled = off);
alter table pgdispatch.marks set (autovacuum_enabled = off);
alter table pgdispatch.mark_trim set (autovacuum_enabled = off);
alter table pgdispatch.rates set (autovacuum_enabled = off);
