-- reads
-- $1 workspace, $2 beginning of the name, case-insensitive, $3 how many of its first definitions are looked at, $4 at
-- most.
select d.name
from (select d.name from pgdispatch.workflow_definitions d where d.workspace_id = $1::text::uuid order by d.name limit $3::bigint) d
where starts_with(lower(d.name), lower($2::text))
order by d.name
limit $4::bigint
