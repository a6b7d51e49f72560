-- $1 name, $2 plan, $3 its own limit or null.
insert into pgdispatch.workspaces (name, plan, max_concurrent_workflows)
values ($1, $2, $3)
returning id::text
