-- reads
-- The task queues and namespaces of all definitions ('': the replicas' namespace), with the highest max_attempts, and
-- how many have no version.
select coalesce(d.namespace, '') as namespace, d.task_queue as name, count(*) as definitions, max(d.max_attempts) as max_attempts,
       count(*) filter (where not exists (select from pgdispatch.workflow_definition_versions v
                                          where v.workflow_definition_id = d.id)) as without_version
from pgdispatch.workflow_definitions d
group by d.namespace, d.task_queue
order by count(*) desc, d.task_queue, d.namespace
