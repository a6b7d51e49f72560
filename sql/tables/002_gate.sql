-- The wake gate. 1 means that the dispatcher on duty sleeps or is about to, and that transactions that commit work
-- notify it. Any other value means that nobody notifies. A sequence changes outside of transactions, and reading it
-- costs microseconds. Unlogged since Postgres 15, because a change of it then costs no commit; after a crash of the
-- server it is as created here.
do $$
begin
    execute format('create %s sequence pgdispatch.gate maxvalue 2',
                   case when current_setting('server_version_num')::integer >= 150000 then 'unlogged' end);
end;
$$;

---- create above / drop below ----

drop sequence pgdispatch.gate;
