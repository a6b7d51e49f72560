-- The activity that replicas would have recorded for the items started in the last hour. The numbers of waiting and
-- running items are invented.
with recent as (
    select date_trunc('minute', q.dispatched_at) as minute, q.status, ceil(4 * log(2, 8000 * extract(epoch from q.dispatched_at - q.run_at)))::integer + 1 as class
    from pgdispatch.workflow_execution_queue q where q.dispatched_at > now() - interval '1 hour' and q.finished_at is not null
)
insert into pgdispatch.activity (minute, started, completed, failed, waiting, claimed, running, waits, startable_waits)
select r.minute, count(*), count(*) filter (where r.status = 'COMPLETED'), count(*) filter (where r.status = 'FAILED'),
       2300 + 9 * count(*), count(*) / 20, 430 + count(*) / 4, w.waits, w.waits
from recent r
cross join lateral (
    select array_agg((select count(*) from recent o where o.minute = r.minute and o.class = n)) as waits from generate_series(1, 40) n
) w
group by r.minute, w.waits
