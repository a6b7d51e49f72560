-- For bring_back_items: the time at which pgdispatch set an item's run_at. That is created_at if the application asked
-- for no time, that of the last failure, or that of the last debounce. Null if the application asked for it.
create or replace function pgdispatch.run_at_witness(item bigint, run_at timestamptz, created_at timestamptz, failures integer)
returns timestamptz
language sql stable
as $$
    select max(w.at)
    from (select run_at_witness.created_at as at where run_at_witness.run_at = run_at_witness.created_at
          union all
          select least(f.failed_at, run_at_witness.run_at) from pgdispatch.item_failures f
          where f.item_id = item and f.failure = failures
            -- 6 minutes is the longest delay, see dispatch/namespaces.go; failed_at is read after run_at
            and f.failed_at between run_at_witness.run_at - interval '6 minutes' and run_at_witness.run_at + interval '1 second'
          union all
          select least(k.debounced_at, run_at_witness.run_at) from pgdispatch.enqueue_keys k
          where k.item_id = item and k.debounced_at is not null) w;
$$;
