-- reads
-- $1 workspace, $2 definition. Returns whether one of that name exists.
select exists (select from pgdispatch.workspaces w where w.name = $1::text) as workspace,
       exists (select from pgdispatch.workflow_definitions d where d.name = $2::text) as definition
