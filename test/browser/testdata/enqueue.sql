-- $1 number of items per definition, in the workspaces of five companies and in the oddly named ones. Items of the
-- companies have waited for longer.
insert into pgdispatch.workflow_execution_queue (workspace_id, workflow_definition_id, params, run_at)
select d.workspace_id, d.id, '{"orderId": 42}', now() - case when w.name ~ '^[A-Z][a-z]' then interval '200 s' else interval '0' end
from pgdispatch.workspaces w
join pgdispatch.workflow_definitions d on d.workspace_id = w.id
cross join generate_series(1, $1::integer)
where w.name ~ '^(Acme|Dunder|Globex|Hooli|Initech) ' or w.name !~ '^[A-Z][a-z]'
