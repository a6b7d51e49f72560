-- reads
-- $1 a name that no workspace or, if $2, no workflow definition has; of definitions, only those of workspace $3 (null:
-- any). Returns the names that may have been meant: those that differ by case only, and others about as long, at most
-- $4.
select n.name
from (
    select w.name from pgdispatch.workspaces w where not $2::boolean
    union all
    select d.name
    from pgdispatch.workflow_definitions d
    where $2::boolean and ($3::text is null or d.workspace_id = $3::text::uuid)
) n
where abs(length(n.name) - length($1::text)) <= 3 or lower(n.name) = lower($1::text)
group by n.name
order by lower(n.name) <> lower($1::text), n.name
limit $4::bigint
