-- A row as no application would write it. The columns and values are text of the harness's own.
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, execution_id@columns)
values ('@workspace', '@definition', '@execution'@values)
