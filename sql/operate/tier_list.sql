-- reads
-- All plans, lowest limit first.
select t.plan as name, t.max_concurrent_workflows, t.max_burst_workflows from pgdispatch.workspace_tiers t order by t.max_concurrent_workflows, t.plan
