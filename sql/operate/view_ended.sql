-- reads
-- $1 workspaces (null: all), $2 how many failures and how many other items are looked at, the newest first. Ended items
-- by status. exact: all were looked at. about: of all workspaces, the number by the statistics of the last ANALYZE,
-- or null. No index has completed items, so of more than $2 items
-- of all workspaces only the failed ones are looked at.
with failures as materialized (
    (select null::uuid as workspace_id from pgdispatch.workflow_execution_queue q -- from the index alone
     where $1::text[] is null and q.stage = 'DEAD' order by q.finished_at desc limit $2::bigint)
    union all
    (select q.workspace_id from pgdispatch.workflow_execution_queue q
     where $1::text[] is not null and q.stage = 'DEAD' order by q.finished_at desc limit $2::bigint)
), size as materialized (
    select c.reltuples as items, $1::text[] is not null or c.reltuples <= $2::bigint as small
    from pg_class c where c.oid = 'pgdispatch.workflow_execution_queue'::regclass
), newest as materialized (
    select q.workspace_id, q.status from pgdispatch.workflow_execution_queue q
    where (select s.small from size s)
    order by q.id desc limit $2::bigint
), looked as (
    select 'FAILED' as of, 'FAILED' as status, f.workspace_id from failures f
    union all
    select 'OTHERS', n.status, n.workspace_id from newest n
), common as (
    select v.status, v.share from pg_stats p, unnest(p.most_common_vals::text::text[], p.most_common_freqs) v (status, share)
    where $1::text[] is null and p.schemaname = 'pgdispatch' and p.tablename = 'workflow_execution_queue' and p.attname = 'status'
)
select e.status,
       (select count(*) from looked l
        where l.of = e.of and l.status = e.status and ($1::text[] is null or l.workspace_id = any ($1::text[]::uuid[]))) as items,
       (e.of = 'FAILED' or s.small) and (select count(*) < $2::bigint from looked l where l.of = e.of) as exact,
       (select round(s.items * c.share)::bigint from common c where c.status = e.status) as about
from (values ('OTHERS', 'COMPLETED'), ('FAILED', 'FAILED'), ('OTHERS', 'CANCELLED')) e (of, status), size s
