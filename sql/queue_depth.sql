-- reads
-- $1 how many items of a status are counted at the most.
select d.pending, d.claimed, d.dispatched, d.dead, d.dead_is_all, d.oldest_waiting, d.replicas, d.max_claims, d.paused
from pgdispatch.queue_depth($1) d
