-- reads
-- $1 how many of the newest failures are searched, $2 part of the text, case-insensitive, $3 at most. The longest part of
-- each kind of error that stands in all errors of the kind. The most frequent first.
with failures as materialized (
    select q.last_error from pgdispatch.workflow_execution_queue q where q.stage = 'DEAD' order by q.finished_at desc limit $1::bigint
)
select p.text
from (select pgdispatch.error_kind(f.last_error) as kind, count(*) as items from failures f group by pgdispatch.error_kind(f.last_error)) k
cross join lateral (
    select btrim(p.text) as text from regexp_split_to_table(k.kind, '…|[[:cntrl:]]') p (text) order by length(btrim(p.text)) desc limit 1
) p
where length(p.text) > 2 and position(lower($2::text) in lower(p.text)) > 0
group by p.text
order by sum(k.items) desc, p.text
limit $3::bigint
