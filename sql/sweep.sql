-- CLAIMED -> PENDING, CLAIMED
-- $1 at most. Returns how many leases had run out, in how many workspaces due items were found that no claim would have
-- noticed, how long until the next lease runs out (null: nothing is leased), how many leases from before the clock was set back
-- were shortened, the database's time, and whether there is work that a claim would find. Hints that claims have read go.
with read_hints as (
    delete from pgdispatch.lane_hints h
    using (select b.seen from pgdispatch.lane_book b order by b.version desc limit 1) b
    where h.xid < pg_snapshot_xmax(b.seen) and pg_visible_in_snapshot(h.xid, b.seen)
)
select pgdispatch.requeue_expired($1),
       pgdispatch.find_unnoticed(),
       (
           select min(q.lease_expires_at) - clock_timestamp()
           from pgdispatch.workflow_execution_queue q
           where q.status = 'CLAIMED' and q.lease_expires_at > clock_timestamp()
       ),
       pgdispatch.shorten_leases(),
       clock_timestamp(),
       pgdispatch.work_due()
