-- Items that a trigger or a constraint of somebody's own lets nobody claim, or requeue. They are passed over until try_at.
create table pgdispatch.parked_items (
    item_id   bigint primary key,
    error     text not null,
    tries     integer not null default 1,
    -- How often the item had been claimed: once that is more, it is parked no more.
    attempts  integer not null,
    parked_at timestamptz not null default clock_timestamp(),
    try_at    timestamptz not null
);

---- create above / drop below ----

drop table pgdispatch.parked_items;
