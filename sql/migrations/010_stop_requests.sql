-- Requests to end what runs. A request is durable: whichever replica is first carries it out, and repeats it until Temporal has
-- taken it. It frees no slot; the workflow's end does.
create table pgdispatch.stop_requests (
    execution_id uuid primary key,
    how          text not null check (how in ('CANCEL', 'TERMINATE')),
    reason       text not null,
    requested_by text not null,
    requested_at timestamptz not null default clock_timestamp(),
    -- SENT: Temporal has taken it. ENDED: the workflow had ended before. WITHDRAWN: its item had not been started.
    state        text not null default 'OPEN' check (state in ('OPEN', 'SENT', 'ENDED', 'WITHDRAWN')),
    settled_at   timestamptz,
    tries        integer not null default 0,
    next_try_at  timestamptz not null default clock_timestamp(),
    -- What Temporal said to the last try; null: it was not asked, or has taken it.
    error        text,
    constraint an_open_one_is_not_settled check ((state = 'OPEN') = (settled_at is null))
);

create index stop_requests_open on pgdispatch.stop_requests (next_try_at) where state = 'OPEN';

{{ template "functions/request_stop.sql" . }}
{{ template "functions/take_stops.sql" . }}

---- create above / drop below ----

drop function pgdispatch.take_stops(integer);
drop function pgdispatch.request_terminate(uuid, text, text);
drop function pgdispatch.request_cancel(uuid, text, text);
drop function pgdispatch.request_stop(uuid, text, text, text);
drop table pgdispatch.stop_requests;
