-- A row that no application would write. The harness generates the columns and values as SQL text.
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, execution_id@columns)
values ('@workspace', '@definition', '@execution'@values)
