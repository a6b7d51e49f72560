-- psql "$DATABASE_URL" -v workspace="$WORKSPACE" -v definition="$DEFINITION" -v order=42 -f docs/clients/enqueue.sql
-- Add -v traceparent=... where the request has one.
-- Stores an order and enqueues its workflow: both happen, or neither. Said again, it makes nothing twice.
\set QUIET on
\set ON_ERROR_STOP on
-- Shows an error's SQLSTATE. PGD...: the row is wrong, and would be refused again.
\set VERBOSITY verbose
\pset format unaligned
\pset tuples_only on
\if :{?traceparent}
\else
\set traceparent ''
\endif

begin;

insert into pgdispatch.workflow_execution_queue
    (workspace_id, workflow_definition_id, params, idempotency_key, traceparent)
values (:'workspace', :'definition', jsonb_build_object('orderId', :order), 'order-' || :'order', nullif(:'traceparent', ''))
on conflict (workspace_id, idempotency_key) where idempotency_key is not null do nothing;

insert into orders (id, execution_id)
select :order, execution_id
from pgdispatch.workflow_execution_queue
where workspace_id = :'workspace' and idempotency_key = 'order-' || :'order'
on conflict do nothing;

-- One digest of all orders, once none has come for a minute, an hour after the first at the latest.
select action
from pgdispatch.enqueue(workspace_id => :'workspace', workflow_definition_id => :'definition', params => '{"digest": true}',
    key => 'digest', on_conflict => 'debounce', quiet => '1 min', at_most => '1 hour')
\gset

commit;

select 'execution-' || execution_id from orders where id = :order;
