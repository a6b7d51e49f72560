-- Executions that run according to the database, and that Temporal does not find: a deleted workflow, a store that was
-- restored, a failover that lags, or a wrong cluster. They keep their slots until it is certain that they are gone.
create table pgdispatch.missing_executions (
    execution_id uuid primary key,
    -- Since when each question about it was answered in this way, and when the last one was.
    since        timestamptz not null,
    asked_at     timestamptz not null,
    -- Whether it is younger than the retention of its namespace: then its end cannot have been forgotten.
    young        boolean not null,
    -- The person who said that it is gone.
    given_up_by  text
);

---- create above / drop below ----

drop table pgdispatch.missing_executions;
