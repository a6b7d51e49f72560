-- reads
-- $1 workspaces; of them $2 those with this part of the name, case-insensitive, or this ID (null: any); $3 order:
-- running, oldest or failures (those with any first, then the others by name), or name; $4, $5 and $6 rank, name and ID
-- of the last one shown (null: from the first); $7 at most. Counts at most $8 items of a status per workspace, and
-- failures among the newest $9 of the last day, of all workspaces.
with {{ template "parts/troubles.sql" "$9" }}), oldest as materialized (
    select n.* from pgdispatch.waiting_among(case when $3::text = 'oldest' then $1::text[]::uuid[] end, $9::integer) n
), held as materialized ( -- at most the first 100,000 slot holders
    select n.workspace_id, count(*) as items
    from (select q.workspace_id from unnest(case when $3::text = 'running' then $1::text[]::uuid[] end) o (id)
          cross join lateral (select q.workspace_id from pgdispatch.workflow_execution_queue q
                              where q.workspace_id = o.id and q.stage in ('HOLDS', 'DOUBT') limit $8::bigint) q
          limit 100000) n
    group by n.workspace_id
), ranked as materialized (
    select w.id, w.name collate "C" as name,
           coalesce(case $3::text
                        when 'oldest' then date_part('epoch', least(o.oldest_due, u.since))
                        when 'running' then -h.items::double precision
                        when 'failures' then -f.items::double precision
                    end, 'infinity') as rank
    from unnest($1::text[]::uuid[]) g (id)
    cross join lateral (select w.id, w.name from pgdispatch.workspaces w where w.id = g.id offset 0) w -- per row
    left join unanswered u on u.workspace_id = w.id
    left join failed f on f.workspace_id = w.id
    left join oldest o on o.workspace_id = w.id
    left join held h on h.workspace_id = w.id
    where ($2::text is null or position(lower($2::text) in lower(w.name)) > 0 or w.id::text = lower($2::text))
), page as materialized (
    select r.id, r.rank from ranked r
    where $4::double precision is null or (r.rank, case when r.rank = 'infinity' then r.name else '' end, r.id)
        > ($4::double precision, case when $4::double precision = 'infinity' then $5::text else '' end, $6::text::uuid)
    order by r.rank, case when r.rank = 'infinity' then r.name end, r.id limit $7::bigint
)
{{ template "parts/workspace_rows.sql" "$8" }}
order by p.rank, case when p.rank = 'infinity' then w.name end collate "C", p.id
