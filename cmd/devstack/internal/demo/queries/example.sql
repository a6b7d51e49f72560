-- A definition for the printed example of enqueuing an item.
select d.workspace_id, d.id, w.name, d.name
from pgdispatch.workflow_definitions d
join pgdispatch.workspaces w on w.id = d.workspace_id
order by w.name, d.name
limit 1
