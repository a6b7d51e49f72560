-- reads
-- $1 how many failures, from the one on that failed before $2 with ID $3 (null: from the newest). The last of them; no
-- row if there are fewer.
select q.finished_at as failed_at, q.id
from pgdispatch.workflow_execution_queue q
where q.stage = 'DEAD' and q.finished_at <= coalesce($2::timestamptz, 'infinity')
  and ($2::timestamptz is null or (q.finished_at, q.id) < ($2::timestamptz, $3::bigint))
order by q.finished_at desc, q.id desc
offset $1::bigint - 1 limit 1
