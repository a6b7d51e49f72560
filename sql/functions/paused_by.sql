-- Who paused all claims or, if they are not paused, set max_claims to 0, and when. No row if this is not among the newest
-- 10,000 changes of the audit log, or if their row is not as the last logged change of the settings left it: then
-- somebody changed it with plain SQL.
create or replace function pgdispatch.paused_by(paused boolean, max_claims integer) returns table (at timestamptz, who text)
language sql stable rows 1
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
    with newest as materialized (
        select l.id, l.at, l.who, l.details, l.xmin as xid
        from pgdispatch.admin_log l
        where l.id > (select max(n.id) from pgdispatch.admin_log n) - 10000 and l.subject = 'settings'
        order by l.id desc
    )
    select p.at, p.who
    from (
        select n.at, n.who, n.details -> case when paused then 'paused' else 'max_claims' end ->> 1 as value
        from newest n
        where n.details ? case when paused then 'paused' else 'max_claims' end
        limit 1
    ) p
    where p.value = case when paused then 'true' else max_claims::text end
      and (select s.xmin from pgdispatch.settings s) = (select n.xid from newest n limit 1)
$$;
