-- How the used limits of keys were used, one row per limit and minute, of the last hour. For display only.
create table pgdispatch.limit_activity (
    minute     timestamptz not null,
    limit_id   bigint not null,
    -- At one moment of the minute, as limits_used counts.
    active     bigint not null,
    waiting    bigint not null,
    -- Since when the limit has been full, by the samples of each minute. Null means that it is not.
    full_since timestamptz,
    primary key (minute, limit_id)
);

---- create above / drop below ----

drop function pgdispatch.note_limits(timestamptz);
drop table pgdispatch.limit_activity;
