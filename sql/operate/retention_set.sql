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
