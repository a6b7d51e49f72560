-- Settings, plans, and who changed what.

-- name: settings_get
-- reads
select s.max_claims, s.paused, s.retention, s.dead_letter_retention, s.result_bytes, s.notify_ended from pgdispatch.settings s

-- name: settings_set
-- writes settings and the audit log
-- $1 max_claims, $2 paused, $3 result_bytes, $4 notify_ended; null leaves one unchanged. $5 who. Writes nothing if nothing
-- changes, so that the row as it is tells whether its last change is in the audit log: see paused_by.
with was as materialized (
    select s.* from pgdispatch.settings s for update
), changed as (
    update pgdispatch.settings s
    set max_claims = coalesce($1::integer, s.max_claims), paused = coalesce($2::boolean, s.paused),
        result_bytes = coalesce($3::integer, s.result_bytes), notify_ended = coalesce($4::boolean, s.notify_ended)
    from was
    where s.singleton = was.singleton
      and (s.max_claims, s.paused, s.result_bytes, s.notify_ended) is distinct from
          (coalesce($1::integer, s.max_claims), coalesce($2::boolean, s.paused), coalesce($3::integer, s.result_bytes),
           coalesce($4::boolean, s.notify_ended))
    returning s.*, pgdispatch.row_change(to_jsonb(was), to_jsonb(s)) as details
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $5::text, 'settings set', 'settings', c.details from changed c
)
select coalesce(c.max_claims, w.max_claims) as max_claims, coalesce(c.paused, w.paused) as paused,
       w.retention, w.dead_letter_retention, coalesce(c.result_bytes, w.result_bytes) as result_bytes,
       coalesce(c.notify_ended, w.notify_ended) as notify_ended,
       w.max_claims as was_max_claims, w.paused as was_paused, w.retention as was_retention,
       w.dead_letter_retention as was_dead_letter_retention, w.result_bytes as was_result_bytes, w.notify_ended as was_notify_ended
from was w
left join changed c on true

-- name: retention_set
-- writes settings and the audit log
-- $1 whether to set retention, $2 its value; $3 and $4 likewise for dead letters. Null is off: kept forever. $5 who. Writes
-- nothing if nothing changes: as settings_set.
with was as materialized (
    select s.*, case when $1::boolean then $2::interval else s.retention end as keep,
           case when $3::boolean then $4::interval else s.dead_letter_retention end as keep_dead
    from pgdispatch.settings s for update
), changed as (
    update pgdispatch.settings s
    set retention = was.keep, dead_letter_retention = was.keep_dead
    from was
    where s.singleton = was.singleton and (s.retention, s.dead_letter_retention) is distinct from (was.keep, was.keep_dead)
    returning pgdispatch.row_change(to_jsonb(was), to_jsonb(s)) as details
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $5::text, 'settings set', 'settings', c.details from changed c
)
select w.max_claims, w.paused, w.keep as retention, w.keep_dead as dead_letter_retention, w.result_bytes, w.notify_ended,
       w.max_claims as was_max_claims, w.paused as was_paused, w.retention as was_retention,
       w.dead_letter_retention as was_dead_letter_retention, w.result_bytes as was_result_bytes, w.notify_ended as was_notify_ended
from was w

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
