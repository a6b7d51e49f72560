-- reads
-- $1 items, $2 who. Marks those of these dead letters that are open, and returns them.
select pgdispatch.discard_items($1::bigint[], $2::text)
