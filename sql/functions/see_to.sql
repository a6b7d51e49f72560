-- The first step of everything that handles dead letters: locks their rows. The caller reads their marks in its next
-- statement, which sees what the previous holder of the locks did. who must be valid as the author of a mark.
create or replace function pgdispatch.see_to(items bigint[], who text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if who is null or length(who) not between 1 and 200 or who ~ '[[:cntrl:]]' then
        raise exception 'who must have 1 to 200 characters and no control characters'
            using errcode = 'PGD25', hint = 'Pass the name of the person who decides, or omit it to use the database user.';
    end if;
    perform q.id
    from pgdispatch.workflow_execution_queue q
    where q.id = any (items) and q.status = 'FAILED'
    order by q.id
    for update;
end;
$$;
