-- reads
-- $1 states; $2 workspace and $3 definition: ID or name; $4 part of the error, case-insensitive; enqueued since $5 or,
-- if that is null, since $6 ago; until $7 or $8, likewise; $9 only items before this ID; $10 at most; $11 only those
-- that wait after a failure. Null filters nothing. Newest first.
select q.id
from pgdispatch.workflow_execution_queue q
where ($1::text[] is null or q.status = any ($1::text[]))
  and ($2::text is null or q.workspace_id::text = lower($2::text)
       or q.workspace_id = any (array(select w.id from pgdispatch.workspaces w where w.name = $2::text)))
  and ($3::text is null or q.workflow_definition_id::text = lower($3::text)
       or q.workflow_definition_id = any (array(select d.id from pgdispatch.workflow_definitions d where d.name = $3::text)))
  and ($4::text is null or position(lower($4::text) in lower(q.last_error)) > 0)
  and q.created_at >= coalesce($5::timestamptz, clock_timestamp() - $6::interval, '-infinity')
  and q.created_at <= coalesce($7::timestamptz, clock_timestamp() - $8::interval, 'infinity')
  and ($9::bigint is null or q.id < $9::bigint)
  and (not $11::boolean or (q.status = 'PENDING' and q.failure_count > 0 and q.run_at > clock_timestamp()))
order by q.id desc
limit $10::bigint
