-- CLAIMED -> PENDING
-- $1 at most, $2 replica. Returns how many leases had expired, how long until the next lease or replica expires (null:
-- there is none), the database's time, and the first transaction ID that may still be open. Also what else there is to
-- do, so that an idle replica asks for nothing more: how many executions are open, how many this replica is to watch,
-- whether some have no live watcher, open stop requests and signals, whether retention is on, the namespaces of
-- definitions ('': some name none), and the use of the notification queue; asking empties it of what all have read.
-- Counts and trims marks, and records queue depths once a minute.
with leases as materialized (
    select count(*) filter (where q.status = 'CLAIMED' and q.lease_expires_at <= clock_timestamp()) as expired,
           min(q.lease_expires_at) filter (where q.status = 'CLAIMED' and q.lease_expires_at > clock_timestamp()) as next_expiry,
           coalesce(min(q.lease_token) filter (where q.status = 'CLAIMED'), max(q.lease_token) filter (where q.status = 'DISPATCHED') + 1) as leased
    from pgdispatch.workflow_execution_queue q
    where q.stage in ('HOLDS', 'DOUBT') and q.lease_token >= (select t.leased_from from pgdispatch.mark_trim t)
)
select case when l.expired > 0 then pgdispatch.requeue_expired($1) else 0 end as requeued,
       least(l.next_expiry, r.next_expiry) - clock_timestamp() as next_expiry_in,
       clock_timestamp() as now,
       pg_snapshot_xmin(pg_current_snapshot())::text::bigint as oldest_open,
       running.executions as open,
       running.mine,
       running.unwatched,
       exists (select from pgdispatch.stop_requests r where r.state = 'OPEN') as stops,
       exists (select from pgdispatch.signals s where s.state = 'OPEN') as signals,
       s.retention is not null or s.dead_letter_retention is not null as deletes,
       pgdispatch.namespaces_in_use() as namespaces, pg_notification_queue_usage() as notify_queue
from leases l
cross join (select min(r.expires_at) filter (where r.expires_at > clock_timestamp()) as next_expiry from pgdispatch.replicas r) r -- then unwatched
cross join pgdispatch.settings s
cross join pgdispatch.trim_marks(l.leased)
cross join pgdispatch.note_minute()
cross join (
    select count(*) as executions,
           count(*) filter (where e.watcher = $2) as mine,
           coalesce(bool_or(e.watcher is null
               or e.watcher <> all (array(select r.id from pgdispatch.replicas r where r.expires_at > clock_timestamp()))), false) as unwatched
    from pgdispatch.workflow_executions e
    where e.finished_at is null and e.status = 'RUNNING'
) running
