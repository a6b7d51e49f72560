-- Settings, plans, and who changed what.

-- name: settings_get
-- reads
select s.max_claims, s.paused, s.retention, s.dead_letter_retention, s.result_bytes, s.workflow_id_bytes, s.notify_ended from pgdispatch.settings s

-- name: settings_set
-- writes settings and the audit log
-- $1 {"column": value} of those to change, $2 who. Returns the settings before and after. Writes nothing if nothing
-- changes, so that the row as it is tells whether its last change is in the audit log: see paused_by.
with was as materialized (
    select s as held from pgdispatch.settings s limit 1 for update
), wanted as materialized (
    select n as row from was w cross join lateral jsonb_populate_record(w.held, $1::jsonb) n
), changed as (
    update pgdispatch.settings s
    set max_claims = (n.row).max_claims, paused = (n.row).paused, retention = (n.row).retention,
        dead_letter_retention = (n.row).dead_letter_retention, result_bytes = (n.row).result_bytes,
        workflow_id_bytes = (n.row).workflow_id_bytes, notify_ended = (n.row).notify_ended
    from was w, wanted n
    where s.singleton and w.held is distinct from n.row
    returning pgdispatch.row_change(to_jsonb(w.held), to_jsonb(s)) as details
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $2::text, 'settings set', 'settings', c.details from changed c
)
select (v.row).max_claims, (v.row).paused, (v.row).retention, (v.row).dead_letter_retention, (v.row).result_bytes,
       (v.row).workflow_id_bytes, (v.row).notify_ended
from (select 1, w.held from was w union all select 2, n.row from wanted n) v (version, row)
order by v.version

-- name: tier_list
-- reads
-- All plans, lowest limit first.
select t.plan as name, t.max_concurrent_workflows, t.max_burst_workflows from pgdispatch.workspace_tiers t order by t.max_concurrent_workflows, t.plan

-- name: audit_list
-- reads
-- $1 who; $2 prefix of the action; since $3 or, if that is null, since $4 ago; until $5 or $6, likewise; $7 only rows
-- before this ID; $8 at most; $9 subject; $10 how many of the newest rows are searched; $11 only changes of these
-- workspaces. Null filters nothing. Newest first.
select a.id, a.at, a.who, a.role, a.action, a.subject, a.details
from pgdispatch.admin_log a
where ($1::text is null or a.who = $1::text)
  and ($2::text is null or starts_with(a.action, $2::text))
  and a.at >= coalesce($3::timestamptz, clock_timestamp() - $4::interval, '-infinity')
  and a.at <= coalesce($5::timestamptz, clock_timestamp() - $6::interval, 'infinity')
  and ($7::bigint is null or a.id < $7::bigint)
  and ($9::text is null or a.subject = $9::text)
  and ($11::text[] is null or a.subject = any (array(select 'workspace ' || g.id from unnest($11::text[]::uuid[]) g (id))))
  and a.id > coalesce((select max(n.id) from pgdispatch.admin_log n) - $10::bigint, 0)
order by a.id desc
limit $8::bigint

-- name: adopt_database
-- writes installation
-- $1 who. Binds this database to this installation, and returns the name of the one that it was bound to ('': none).
with was as materialized (
    select i.database_name, i.system_identifier, i.database_oid from pgdispatch.installation i
), bound as (
    insert into pgdispatch.installation as n (system_identifier, database_oid, database_name)
    select pgdispatch.system_identifier(), d.oid, d.datname from pg_database d
    where d.datname = current_database() and $1::text is not null
    on conflict (singleton) do update
    set system_identifier = excluded.system_identifier, database_oid = excluded.database_oid,
        database_name = excluded.database_name, bound_at = excluded.bound_at
    returning n.*
), logged as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $1::text, 'migrate adopt', 'database',
           jsonb_build_object('database_name', jsonb_build_array(w.database_name, b.database_name),
               'database_oid', jsonb_build_array(w.database_oid, b.database_oid),
               'system_identifier', jsonb_build_array(w.system_identifier, b.system_identifier))
    from bound b left join was w on true
)
select coalesce((select w.database_name from was w), '')

-- function: paused_by
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
