-- The wake gate. 1: the dispatcher on duty sleeps, or is about to, and whoever commits work notifies it. Anything else: nobody does.
-- A sequence is changed outside of transactions and costs a reader microseconds. Unlogged, from Postgres 15 on, because a change of it
-- is then not worth a commit; after a crash of the server it is as it is here.
do $$
begin
    execute format('create %s sequence pgdispatch.gate maxvalue 2',
                   case when current_setting('server_version_num')::integer >= 150000 then 'unlogged' end);
end;
$$;

---- create above / drop below ----

drop sequence pgdispatch.gate;
