-- Workspace and definition of each item that can start now in the workspaces of five companies, in rotation.
select d.workspace_id::text, d.id::text
from pgdispatch.workspaces w
join pgdispatch.workspace_tiers t on t.plan = w.plan
join pgdispatch.workflow_definitions d on d.workspace_id = w.id and d.name = 'order'
cross join lateral generate_series(1, t.max_concurrent_workflows) n
where w.name ~ '^(Acme|Dunder|Globex|Hooli|Initech) ' and not w.paused
order by n, w.name
