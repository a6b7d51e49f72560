-- reads
-- $1 since how long ago. Minute by minute, the earliest first; those in which nobody swept and nothing happened have no row. And
-- the present time.
select a.minute, a.started, a.completed, a.failed, a.cancelled, a.waiting, a.claimed, a.running, a.waits, clock_timestamp() as now
from pgdispatch.activity a
where a.minute > date_trunc('minute', clock_timestamp()) - $1::interval
order by a.minute
