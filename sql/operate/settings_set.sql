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
