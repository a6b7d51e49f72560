-- reads
-- $1 how far back. Minute by minute, earliest first, with the current time. A minute without a sweep in which nothing
-- happened has no row.
select a.minute as at, a.started, a.completed, a.failed, a.cancelled, a.waiting, a.claimed, a.running, a.waits,
       a.startable_waits, clock_timestamp() as now
from pgdispatch.activity a
where a.minute > date_trunc('minute', clock_timestamp()) - $1::interval
order by a.minute
