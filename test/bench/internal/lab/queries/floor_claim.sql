update bench.floor f
set status = 'CLAIMED', updated_at = now()
where f.id = (select p.id from bench.floor p where p.status = 'PENDING' order by p.id limit 1 for update skip locked)
returning f.id, f.execution_id::text, f.workspace_id::text, f.workflow_definition_id::text, f.params::text
