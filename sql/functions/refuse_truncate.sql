-- Before a TRUNCATE of any table: see schema/roles.sql. It would run no trigger of a row. What refers to the rows would
-- stay and, once IDs begin again, belong to others; and no replica would learn of the slots that it frees.
create or replace function pgdispatch.refuse_truncate() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception '% must not be truncated', tg_relid::regclass
        using errcode = 'PGD28', hint = 'Delete rows instead: `pgdispatch items purge` deletes items that have ended.';
end;
$$;
