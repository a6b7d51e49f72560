-- Histogram of how long the started items had been startable; see waits.
alter table pgdispatch.activity add column startable_waits bigint[] not null default '{}';

---- create above / drop below ----

alter table pgdispatch.activity drop column startable_waits;
