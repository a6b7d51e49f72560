-- How many of a workspace's items may hold slots while no other workspace needs the workers. Null on a workspace means
-- its plan's; null on a plan means none beyond the limit. A value below the limit changes nothing.
alter table pgdispatch.workspace_tiers
    add column max_burst_workflows integer check (max_burst_workflows between 0 and 100000);
alter table pgdispatch.workspaces
    add column max_burst_workflows integer check (max_burst_workflows between 0 and 100000);

---- create above / drop below ----

alter table pgdispatch.workspaces drop column max_burst_workflows;
alter table pgdispatch.workspace_tiers drop column max_burst_workflows;
