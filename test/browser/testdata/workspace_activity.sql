-- What would have been noted of each workspace in the last day; there is one item less than a day old in some.
insert into pgdispatch.workspace_activity (at, workspace_id, started, completed, failed, waited, longest)
select date_bin('5 minutes', q.dispatched_at, 'epoch'), q.workspace_id, count(*), count(*) filter (where q.status = 'COMPLETED'),
       count(*) filter (where q.status = 'FAILED'), sum(x.waited), max(x.waited)
from pgdispatch.workflow_execution_queue q
cross join lateral (select (1000 * extract(epoch from q.dispatched_at - q.run_at))::bigint as waited) x
where q.dispatched_at > now() - interval '1 day' and q.finished_at is not null
group by 1, 2
