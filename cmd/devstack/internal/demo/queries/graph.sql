-- The graph of a version of a workflow definition.
select graph
from pgdispatch.workflow_definition_versions
where id = $1
