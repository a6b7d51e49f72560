select f.id, f.execution_id::text, f.workspace_id::text, f.workflow_definition_id::text, f.params::text
from bench.floor f where f.status = 'PENDING' order by f.id limit 10 for update skip locked
