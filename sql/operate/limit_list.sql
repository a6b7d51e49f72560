-- reads
-- $1 workspace (null: any), $2 key (null: any), $3 whether only the limits that an item with $1 and $2 counts against, $4
-- only limits after this ID, $5 at most. active is how many items with the key hold slots, counted up to one more than
-- the limit, or up to 10001.
select l.id, coalesce(l.workspace_id::text, '') as workspace_id, coalesce(w.name, '') as workspace, l.key, l.max_concurrent,
       l.max_starts, l.per, h.active, r.starts as starts_left
from pgdispatch.limits l
left join pgdispatch.workspaces w on w.id = l.workspace_id
cross join (select clock_timestamp() as at_time) c
cross join lateral (
    select count(*) as active
    from (select from pgdispatch.workflow_execution_queue q
          where q.limit_key = l.key and (l.workspace_id is null or q.workspace_id = l.workspace_id) and q.stage in ('HOLDS', 'DOUBT')
          limit coalesce(l.max_concurrent, 10000) + 1) h
) h
left join lateral (
    select min(p.most - coalesce(n.started, 0))::integer as starts
    from unnest(l.max_starts, l.per) as p (most, per)
    left join lateral (
        select sum(s.items) as started from pgdispatch.limit_starts s
        where s.limit_id = l.id and s.per = p.per and s.until > c.at_time - p.per
    ) n on true
) r on true
where ($1::text is null or l.workspace_id = $1::text::uuid or $3::boolean and l.workspace_id is null)
  and ($2::text is null or l.key = $2::text) and l.id > $4::bigint
order by l.id limit $5::bigint
