-- reads
-- $1 how often at the most, $2 how often with a wide look back, $3 the replica's namespace. Rows are the turn to list closed
-- workflows, for one replica at a time: in which namespaces, and since when. None where another replica had the turn, or where every
-- open execution is watched and no wide look is due.
with turn as (
    update pgdispatch.close_sweep s
    set looked_at = clock_timestamp()
    where s.looked_at <= clock_timestamp() - $1::interval
    returning array(select r.id from pgdispatch.replicas r where r.expires_at > clock_timestamp()) as alive
), open as (
    select coalesce(e.namespace, $3::text) as namespace, min(e.started_at) as oldest,
           bool_or(e.watcher is null or e.watcher <> all (t.alive)) as unwatched
    from pgdispatch.workflow_executions e
    cross join turn t
    where e.finished_at is null and e.status = 'RUNNING'
    group by 1
)
select o.namespace, wide.due,
       coalesce(l.swept_to, o.oldest, clock_timestamp()) - case when wide.due then interval '1 minute' else interval '5 seconds' end
from open o
left join pgdispatch.close_lists l on l.namespace = o.namespace
cross join lateral (select coalesce(l.wide_at <= clock_timestamp() - $2::interval, true) as due) wide
where wide.due or o.unwatched
