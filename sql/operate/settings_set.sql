-- writes settings and the audit log
-- $1 max_claims, $2 paused, $3 result_bytes; null leaves one unchanged. $4 who. Writes nothing if nothing changes, so that
-- the row as it is tells whether its last change is in the audit log: see paused_by.
with was as materialized (
    select s.* from pgdispatch.settings s for update
), changed as (
    update pgdispatch.settings s
    set max_claims = coalesce($1::integer, s.max_claims), paused = coalesce($2::boolean, s.paused),
        result_bytes = coalesce($3::integer, s.result_bytes)
    from was
    where s.singleton = was.singleton
      and (s.max_claims, s.paused, s.result_bytes) is distinct from
          (coalesce($1::integer, s.max_claims), coalesce($2::boolean, s.paused), coalesce($3::integer, s.result_bytes))
    returning s.*, pgdispatch.row_change(to_jsonb(was), to_jsonb(s)) as details
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $4::text, 'settings set', 'settings', c.details from changed c
)
select coalesce(c.max_claims, w.max_claims) as max_claims, coalesce(c.paused, w.paused) as paused,
       w.retention, w.dead_letter_retention, coalesce(c.result_bytes, w.result_bytes) as result_bytes,
       w.max_claims as was_max_claims, w.paused as was_paused, w.retention as was_retention,
       w.dead_letter_retention as was_dead_letter_retention, w.result_bytes as was_result_bytes
from was w
left join changed c on true
