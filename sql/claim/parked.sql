-- Items that the database does not let be claimed. All replicas skip them for a while.

-- name: park
-- writes parked items
-- $1 item, $2 why it cannot be claimed. It is retried in a minute, and then ever more rarely, up to every 15 minutes.
-- Returns true if it was not parked before. Forgets parked items that have been claimed since.
with over as (
    delete from pgdispatch.parked_items p
    where p.item_id <> $1 and not exists (select from pgdispatch.workflow_execution_queue q where q.id = p.item_id and q.attempt_count = p.attempts)
)
insert into pgdispatch.parked_items as p (item_id, error, attempts, try_at)
select q.id, left($2, 2000), q.attempt_count, clock_timestamp() + interval '1 min'
from pgdispatch.workflow_execution_queue q where q.id = $1
on conflict (item_id) do update
set error = excluded.error, attempts = excluded.attempts, tries = p.tries + 1, try_at = clock_timestamp() + least(p.tries, 15) * interval '1 min'
returning tries = 1

-- name: unlocked
-- writes row locks only
-- $1 ids. Returns those that are not locked.
select q.id
from pgdispatch.workflow_execution_queue q
where q.id = any ($1::bigint[])
for update skip locked
