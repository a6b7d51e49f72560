-- What errors of one kind have in common: the text without its IDs and numbers, to group by.
create or replace function pgdispatch.error_kind(error text) returns text
language sql immutable
as $$
    select regexp_replace(regexp_replace(left(error, 300),
        '[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}', '…', 'g'), '[0-9]+', '…', 'g')
$$;
