-- reads
-- $1 items, $2 who. Inserts a new item for each of these dead letters that is open.
select r.item_id, r.replay_id, r.replay_execution_id::text
from pgdispatch.replay_items($1::bigint[], $2::text) r
