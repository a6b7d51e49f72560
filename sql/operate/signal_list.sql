-- reads
-- $1 execution (null: all), $2 states (null: all), $3 at most. Newest first.
select s.id, s.execution_id::text, s.name, s.payload, s.sent_at, s.sent_by, s.state, s.next_try_at = 'infinity' as waits, s.settled_at, s.tries,
       coalesce(s.error, '') as error, coalesce(s.run_id, '') as run_id
from pgdispatch.signals s
where ($1::text is null or s.execution_id = $1::text::uuid) and ($2::text[] is null or s.state = any ($2::text[]))
order by s.id desc
limit $3
