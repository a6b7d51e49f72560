-- writes dead letters and the audit log
-- $1 items, $2 who. Discards the open ones of these dead letters and returns them.
with discarded as materialized (
    select d.id from pgdispatch.discard_items($1::bigint[], $2::text) as d (id)
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $2::text, 'dead discard', 'items', jsonb_build_object('items', jsonb_agg(d.id order by d.id))
    from discarded d
    having count(*) > 0
)
select d.id from discarded d
