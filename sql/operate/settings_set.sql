-- writes settings and the audit log
-- $1 max_claims, $2 paused, $3 result_bytes, $4 notify_ended; null leaves one unchanged. $5 who.
with was as materialized (
    select s.* from pgdispatch.settings s for update
), changed as (
    update pgdispatch.settings s
    set max_claims = coalesce($1::integer, s.max_claims), paused = coalesce($2::boolean, s.paused),
        result_bytes = coalesce($3::integer, s.result_bytes), notify_ended = coalesce($4::boolean, s.notify_ended)
    from was
    where s.singleton = was.singleton
    returning s.max_claims, s.paused, s.retention, s.dead_letter_retention, s.result_bytes, s.notify_ended,
        was.max_claims as was_max_claims, was.paused as was_paused, was.retention as was_retention,
        was.dead_letter_retention as was_dead_letter_retention, was.result_bytes as was_result_bytes, was.notify_ended as was_notify_ended,
        pgdispatch.row_change(to_jsonb(was), to_jsonb(s)) as details
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $5::text, 'settings set', 'settings', c.details from changed c where c.details <> '{}'
)
select c.max_claims, c.paused, c.retention, c.dead_letter_retention, c.result_bytes, c.notify_ended,
       c.was_max_claims, c.was_paused, c.was_retention, c.was_dead_letter_retention, c.was_result_bytes, c.was_notify_ended
from changed c
