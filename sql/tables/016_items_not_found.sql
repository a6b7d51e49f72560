-- Before an item that may have been started fails, its workflow is looked up in Temporal: since when each lookup was
-- answered by "not found", and when the last one was. One such answer may come from a failover that lags.
alter table pgdispatch.start_tries
    add column missing_since timestamptz,
    add column missing_at    timestamptz;

---- create above / drop below ----

alter table pgdispatch.start_tries drop column missing_since, drop column missing_at;
