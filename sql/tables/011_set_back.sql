-- When a debounce last set its item's run_at; null if run_at is the application's own. See functions/bring_back.sql.
alter table pgdispatch.enqueue_keys add column debounced_at timestamptz;

-- A transaction that began before the clock was set back has a now() that lies ahead.
alter table pgdispatch.workflow_execution_queue alter column run_at set default least(now(), clock_timestamp());

drop function if exists pgdispatch.shorten_leases();

---- create above / drop below ----

alter table pgdispatch.workflow_execution_queue alter column run_at set default now();
alter table pgdispatch.enqueue_keys drop column debounced_at;
