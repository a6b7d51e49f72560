select d.workspace_id::text, d.id::text from pgdispatch.workflow_definitions d order by d.id
