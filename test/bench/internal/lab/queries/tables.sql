-- The tables of the bench's own contestants, beside the product's schema. Run it in a migrated database.
create schema bench;

-- The product's table without its triggers, with a NOTIFY per statement instead.
create table bench.plain (like pgdispatch.workflow_execution_queue including all);
create table bench.naive (like pgdispatch.workflow_execution_queue including all);

create function bench.notify_naive() returns trigger language plpgsql as $$
begin
    perform pg_notify('bench_naive', '');
    return null;
end;
$$;
create trigger notify_naive after insert on bench.naive for each statement execute function bench.notify_naive();

-- The tables of a hand-written loop: a queue, one index and a NOTIFY.
create table bench.floor (
    id                     bigint generated always as identity primary key,
    execution_id           uuid not null default gen_random_uuid(),
    workspace_id           uuid not null,
    workflow_definition_id uuid not null,
    params                 jsonb not null,
    status                 text not null default 'PENDING',
    created_at             timestamptz not null default now(),
    updated_at             timestamptz not null default now()
);
create index floor_pending on bench.floor (id) where status = 'PENDING';

create function bench.notify_floor() returns trigger language plpgsql as $$
begin
    perform pg_notify('bench_floor', '');
    return null;
end;
$$;
create trigger notify_floor after insert on bench.floor for each statement execute function bench.notify_floor();
