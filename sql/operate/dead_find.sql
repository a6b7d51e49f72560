-- reads
-- $1 state: open, replayed, discarded or any; $2 workspace and $3 definition: ID or name; $4 part of the error,
-- case-insensitive; failed since $5 or, if that is null, since $6 ago; until $7 or $8, likewise; $9 at most (null:
-- all); after the row that failed at $10 with ID $11; $12 only of these workspaces; none before the one that failed at $13
-- with ID $14. Null filters nothing. Newest first.
select f.id
from pgdispatch.failed_items f
where case $1::text when 'open' then f.open when 'any' then true else not f.open and f.mark = upper($1::text) end
  and ($2::text is null or f.workspace_id::text = lower($2::text)
       or f.workspace_id = any (array(select w.id from pgdispatch.workspaces w where w.name collate "C" = $2::text)))
  and ($3::text is null or f.workflow_definition_id::text = lower($3::text)
       or (select d.name from pgdispatch.workflow_definitions d where d.id = f.workflow_definition_id) = $3::text)
  and ($4::text is null or position(lower($4::text) in lower(f.last_error)) > 0)
  and f.finished_at >= coalesce($5::timestamptz, clock_timestamp() - $6::interval, '-infinity')
  and f.finished_at >= coalesce($13::timestamptz, '-infinity')
  and ($13::timestamptz is null or (f.finished_at, f.id) >= ($13::timestamptz, $14::bigint))
  and f.finished_at <= coalesce($7::timestamptz, clock_timestamp() - $8::interval, $10::timestamptz, 'infinity')
  and ($10::timestamptz is null or (f.finished_at, f.id) < ($10::timestamptz, $11::bigint))
  and ($12::text[] is null or f.workspace_id = any ($12::text[]::uuid[]))
order by f.finished_at desc, f.id desc
limit $9::bigint
