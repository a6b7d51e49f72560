-- Items that cannot be claimed or requeued because of a user's trigger or constraint. They are skipped until try_at.
create table pgdispatch.parked_items (
    item_id   bigint primary key,
    error     text not null,
    tries     integer not null default 1,
    -- The item's attempt_count when it was parked. Once it is higher, the item is no longer parked.
    attempts  integer not null,
    parked_at timestamptz not null default clock_timestamp(),
    try_at    timestamptz not null
);

---- create above / drop below ----

drop table pgdispatch.parked_items;
