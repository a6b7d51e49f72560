-- When an epoch begins, commits may have been lost. What they said of the signals up to doubtful_to is in doubt: which run
-- got them, and whether any did. See next_signals().
alter table pgdispatch.signal_turn
    add column epoch uuid,
    add column doubtful_to bigint not null default 0;

-- The upgrade itself begins no epoch.
update pgdispatch.signal_turn set epoch = (select e.id from pgdispatch.epoch e);

---- create above / drop below ----

alter table pgdispatch.signal_turn drop column doubtful_to, drop column epoch;
