-- The first thing that whoever sees to dead letters does: locks their rows, and looks at their marks in the next statement, which
-- sees what the one before it has done. who must be fit to be kept with a mark.
create or replace function pgdispatch.see_to(items bigint[], who text) returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    if who is null or length(who) not between 1 and 200 or who ~ '[[:cntrl:]]' then
        raise exception 'who must have 1 to 200 characters and no control characters'
            using errcode = 'PGD25', hint = 'Name whoever decides it, or leave it out for the database''s user.';
    end if;
    perform q.id
    from pgdispatch.workflow_execution_queue q
    where q.id = any (items) and q.status = 'FAILED'
    order by q.id
    for update;
end;
$$;
