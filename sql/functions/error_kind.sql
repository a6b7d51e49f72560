-- The text of an error without its IDs and numbers, to group errors of one kind.
create or replace function pgdispatch.error_kind(error text) returns text
language sql immutable
as $$
    select regexp_replace(regexp_replace(left(error, 300),
        '[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}', '…', 'g'), '[0-9]+', '…', 'g')
$$;
