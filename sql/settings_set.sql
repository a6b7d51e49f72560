-- reads
-- $1 max_claims, $2 paused; null leaves one as it is. $3 who.
with was as materialized (
    select s.* from pgdispatch.settings s for update
), changed as (
    update pgdispatch.settings s
    set max_claims = coalesce($1::integer, s.max_claims), paused = coalesce($2::boolean, s.paused)
    from was
    where s.singleton = was.singleton
    returning s.max_claims, s.paused, s.retention, s.dead_letter_retention, pgdispatch.row_change(to_jsonb(was), to_jsonb(s)) as details
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $3::text, 'settings set', 'settings', c.details from changed c where c.details <> '{}'
)
select c.max_claims, c.paused, c.retention, c.dead_letter_retention from changed c
