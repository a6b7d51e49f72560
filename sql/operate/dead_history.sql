-- reads
-- $1 item. Its counted failures, earliest first.
select h.failure, h.attempt, h.failed_at, h.error, coalesce(h.replica, '') as replica
from pgdispatch.item_failures h
where h.item_id = $1::bigint
order by h.failure
