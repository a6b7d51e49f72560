-- The installation whose replicas start what this database holds, so that a copy of the database starts nothing. The first
-- replica binds it, and `pgdispatch migrate adopt` does again.
create table pgdispatch.installation (
    singleton         boolean primary key default true check (singleton),
    -- Of the cluster; null if it could not be read.
    system_identifier bigint,
    database_oid      oid not null,
    database_name     text not null,
    bound_at          timestamptz not null default clock_timestamp()
);

---- create above / drop below ----

drop table pgdispatch.installation;
