-- writes the epoch
-- Returns the epoch, which it begins if the server has lost the last one in a crash or a promotion. Null if another
-- transaction is just beginning it.
with begun as (
    insert into pgdispatch.epoch default values on conflict do nothing returning id
)
select coalesce((select b.id from begun b), (select e.id from pgdispatch.epoch e))::text
