-- writes new items, dead letters and the audit log
-- $1 items, $2 who. Inserts a new item for each open one of these dead letters.
with replayed as materialized (
    select r.item_id, r.replay_id, r.replay_execution_id from pgdispatch.replay_items($1::bigint[], $2::text) r
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $2::text, 'dead replay', 'items', jsonb_build_object('items', jsonb_agg(r.item_id order by r.item_id),
                                                               'replays', jsonb_agg(r.replay_id order by r.item_id))
    from replayed r
    having count(*) > 0
)
select r.item_id as id, r.replay_id, r.replay_execution_id::text from replayed r
