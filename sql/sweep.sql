-- CLAIMED -> PENDING, CLAIMED
-- $1 at most, $2 replica. Returns how many leases had run out, in how many workspaces due items were found that no claim would
-- have noticed, how long until the next lease runs out, or a replica's presence (null: neither is there), how many leases from
-- before the clock was set back were shortened, and the database's time. And what there is to do for others, so that a replica
-- with nothing to do asks for nothing else: whether a claim would find work, how many executions are open, how many of them this
-- replica is to watch, whether nobody alive watches some, whether some are to be stopped, whether anything is ever deleted, a
-- number that rises when a lane changes, and the namespaces that definitions name ('': some name none). Hints that claims have
-- read go; the ends that they tell of are counted, and once a minute what waits, is claimed and runs.
select pgdispatch.requeue_expired($1) as requeued,
       pgdispatch.find_unnoticed() as unnoticed,
       (
           select min(x.expires_at) - clock_timestamp() from (
               select q.lease_expires_at as expires_at from pgdispatch.workflow_execution_queue q where q.status = 'CLAIMED'
               union all
               select r.expires_at from pgdispatch.replicas r -- whose watches are free then
           ) x
           where x.expires_at > clock_timestamp()
       ) as next_expiry_in,
       pgdispatch.shorten_leases() as shortened,
       clock_timestamp() as now,
       pgdispatch.work_due() as due,
       running.executions as open,
       running.mine,
       running.unwatched,
       exists (select from pgdispatch.stop_requests r where r.state = 'OPEN') as stops,
       s.retention is not null or s.dead_letter_retention is not null as deletes,
       coalesce(pg_sequence_last_value('pgdispatch.lane_versions'), 0) as lanes_changed,
       pgdispatch.namespaces_in_use() as namespaces
from pgdispatch.settings s
cross join pgdispatch.note_minute()
cross join (
    select count(*) as executions,
           count(*) filter (where e.watcher = $2) as mine,
           coalesce(bool_or(e.watcher is null
               or e.watcher <> all (array(select r.id from pgdispatch.replicas r where r.expires_at > clock_timestamp()))), false) as unwatched
    from pgdispatch.workflow_executions e
    where e.finished_at is null and e.status = 'RUNNING'
) running
