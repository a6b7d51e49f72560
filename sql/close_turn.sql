-- reads
-- $1 how often at the most, $2 how often with a wide look back. A row is the turn to list closed workflows, for one replica at a
-- time: since when, or null where every open execution is watched and no wide look is due.
with turn as (
    update pgdispatch.close_sweep s
    set looked_at = clock_timestamp()
    where s.looked_at <= clock_timestamp() - $1::interval
    returning s.swept_to, s.wide_at <= clock_timestamp() - $2::interval as wide
)
select t.wide,
       case when t.wide or exists (
           select from pgdispatch.workflow_executions e
           where e.finished_at is null and e.status = 'RUNNING'
             and (e.watcher is null
                  or e.watcher <> all (array(select r.id from pgdispatch.replicas r where r.expires_at > clock_timestamp())))
       ) then
           coalesce(
               t.swept_to,
               (select min(e.started_at) from pgdispatch.workflow_executions e where e.finished_at is null),
               clock_timestamp()
           ) - case when t.wide then interval '1 minute' else interval '5 seconds' end
       end
from turn t
