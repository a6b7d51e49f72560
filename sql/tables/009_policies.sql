-- The keys of pgdispatch.enqueue: each with the item that was enqueued last under it. Beside the queue, so that items
-- without a key pay nothing, and so that a key can pass to a new item while the old one runs.
create table pgdispatch.enqueue_keys (
    workspace_id uuid not null,
    key          text not null,
    item_id      bigint not null unique,
    primary key (workspace_id, key)
)
with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- Whether ends are notified on the channel pgdispatch_ended.
alter table pgdispatch.settings add column notify_ended boolean not null default false;

---- create above / drop below ----

alter table pgdispatch.settings drop column notify_ended;
drop table pgdispatch.enqueue_keys;
