-- Limits of keys, of which the items of all definitions named order have one.
with added as (
    insert into pgdispatch.limits (key, max_concurrent, max_starts, per)
    values ('courier', 600, null, null), ('sms', 20, '{10}', '{1 s}'), ('payments', 50, null, null)
)
update pgdispatch.workflow_definitions set limit_key = 'courier' where name = 'order'
