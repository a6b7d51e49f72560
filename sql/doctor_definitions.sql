-- reads
-- The task queues of all definitions and their namespaces ('': the replicas'), with the most attempts that one of them allows, and how many have no version.
select coalesce(d.namespace, '') as namespace, d.task_queue, count(*) as definitions, max(d.max_attempts) as max_attempts,
       count(*) filter (where not exists (select from pgdispatch.workflow_definition_versions v where v.workflow_definition_id = d.id)) as without_version
from pgdispatch.workflow_definitions d
group by d.namespace, d.task_queue
order by count(*) desc, d.task_queue, d.namespace
