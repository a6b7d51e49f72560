-- Completion callbacks: Temporal itself says when a workflow has ended.

-- What the tokens of callbacks are made with. It is here so that all replicas have the same one, and nobody has to hand it out. Random
-- by gen_random_uuid, which is all that Postgres has without an extension; two of them are 244 bits.
create table pgdispatch.callback_key (
    singleton boolean primary key default true check (singleton),
    key       bytea not null default decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex')
                  check (length(key) >= 32)
);

insert into pgdispatch.callback_key default values;

---- create above / drop below ----

drop table pgdispatch.callback_key;
