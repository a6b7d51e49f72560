-- reads
-- $1 ID or name (null: any), $2 prefix of the name (null: any), $3 at most.
select w.id::text, w.name
from pgdispatch.workspaces w
where ($1::text is null or w.id::text = lower($1::text) or w.name = $1::text)
  and ($2::text is null or starts_with(w.name, $2::text))
order by w.name, w.id
limit $3::bigint
