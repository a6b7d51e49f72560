-- writes new items, dead letters and the audit log
-- $1 execution, $2 who. Inserts a new PENDING item, or finds the one that was inserted before.
with stands as materialized (
    select r.id, r.execution_id, r.replayed from pgdispatch.replay($1::uuid, $2::text) r
), noted as (
    insert into pgdispatch.admin_log (who, action, subject, details)
    select $2::text, 'dead replay', 'items', jsonb_build_object('execution', $1::uuid, 'replays', jsonb_build_array(s.id))
    from stands s
    where s.replayed
)
select s.id, coalesce(s.execution_id::text, '') as execution_id, s.replayed from stands s
