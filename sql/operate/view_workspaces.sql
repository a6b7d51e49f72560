-- reads
-- $1 order: running, oldest or failures (those with any first, then the others by name), or name; $2, $3 and $4 rank,
-- name and ID of the last one shown (null: from the first); $5 at most. Counts at most $6 items of a status per
-- workspace, and failures among the newest $7 of the last day, of all workspaces.
with {{ template "parts/troubles.sql" "$7" }}), held as materialized ( -- at most the first 100,000 slot holders
    select q.workspace_id from pgdispatch.workflow_execution_queue q
    where $1::text = 'running' and q.stage in ('HOLDS', 'DOUBT')
      and q.workspace_id >= '00000000-0000-0000-0000-000000000000' limit 100000
), ranked (id, rank) as (
    select l.workspace_id, date_part('epoch', l.waiting_from) from pgdispatch.longest_waiting(5000) l
    where $1::text = 'oldest'
    union all
    select h.workspace_id, -count(*)::double precision from held h group by h.workspace_id
    union all
    select f.workspace_id, -f.items::double precision from failed f where $1::text = 'failures'
), ahead as materialized (
    select r.id, r.rank from ranked r
    where ($2::double precision is null or (r.rank, r.id) > ($2::double precision, $4::text::uuid))
    order by r.rank, r.id limit $5::bigint
), page as materialized (
    (select a.id, a.rank from ahead a)
    union all
    (select w.id, 'infinity' from pgdispatch.workspaces w
     where (select count(*) from ahead) < $5::bigint -- otherwise they are not needed
       and (w.name collate "C", w.id) > (
           case when $2::double precision = 'infinity' then $3::text else '' end,
           case when $2::double precision = 'infinity' then $4::text else '00000000-0000-0000-0000-000000000000' end::uuid)
       and w.id not in (select r.id from ranked r)
     order by w.name collate "C", w.id limit $5::bigint)
)
{{ template "parts/workspace_rows.sql" "$6" }}
order by p.rank, case when p.rank = 'infinity' then w.name end collate "C", p.id limit $5::bigint
