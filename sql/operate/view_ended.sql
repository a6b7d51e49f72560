-- reads
-- $1 workspaces (null: all). Ended items by status. exact: there are no others. about: of all workspaces, the number by
-- the statistics of the last ANALYZE, or null. Failed items are counted among the newest $2, or $3 for some
-- workspaces, which no index tells apart. No index has the others: they are counted if there are at most $2 items.
with size as materialized (
    select c.reltuples as items, c.reltuples <= $2::bigint as small from pg_class c where c.oid = 'pgdispatch.workflow_execution_queue'::regclass
), failures as materialized (
    (select null::uuid as workspace_id from pgdispatch.workflow_execution_queue q -- from the index alone
     where $1::text[] is null and q.stage = 'DEAD' order by q.finished_at desc limit $2::bigint)
    union all
    (select q.workspace_id from pgdispatch.workflow_execution_queue q
     where $1::text[] is not null and q.stage = 'DEAD' order by q.finished_at desc limit $3::bigint)
), newest as (
    select q.workspace_id, q.status from pgdispatch.workflow_execution_queue q
    where (select s.small from size s) order by q.id desc limit $2::bigint
), others as materialized (
    select n.status, count(*) as looked, count(*) filter (where $1::text[] is null or n.workspace_id = any ($1::text[]::uuid[])) as items
    from newest n group by n.status
), common as materialized (
    select v.status, v.share from pg_stats p, unnest(p.most_common_vals::text::text[], p.most_common_freqs) v (status, share)
    where $1::text[] is null and p.schemaname = 'pgdispatch' and p.tablename = 'workflow_execution_queue' and p.attname = 'status'
), counted as (
    select 'FAILED' as status, count(*) filter (where $1::text[] is null or f.workspace_id = any ($1::text[]::uuid[])) as items,
           count(*) < case when $1::text[] is null then $2::bigint else $3::bigint end as exact
    from failures f
    union all
    select v.status, coalesce(o.items, 0), (select s.small from size s) and (select coalesce(sum(a.looked), 0) from others a) < $2::bigint
    from (values ('COMPLETED'), ('CANCELLED')) v (status) left join others o on o.status = v.status
)
select c.status, c.items, c.exact, round(s.items * m.share)::bigint as about
from counted c cross join size s left join common m on m.status = c.status
