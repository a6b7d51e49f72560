-- reads
-- $1 execution, $2 who. Inserts a new item, PENDING like any other, or finds the one that was inserted before.
select r.id, coalesce(r.execution_id::text, '') as execution_id, r.replayed
from pgdispatch.replay($1::uuid, $2::text) r
