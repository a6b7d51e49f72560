-- For claims: takes claim_lock, so that they run one at a time. From then on, the transaction waits at most 50 ms for a
-- row. Before claim_single it is a statement of its own, because the snapshot of a claim must be newer than its lock.
create or replace function pgdispatch.lock_claims() returns void
language plpgsql volatile
as $$
declare
    was text;
begin
    -- A snapshot from before the lock would count outdated holders.
    if current_setting('transaction_isolation') <> 'read committed' then
        raise exception 'claim requires READ COMMITTED, but this transaction is %', current_setting('transaction_isolation')
            using errcode = 'PGD30', hint = 'Use BEGIN ISOLATION LEVEL READ COMMITTED, or call it outside a transaction.';
    end if;
    if current_setting('plan_cache_mode') <> 'force_generic_plan' then
        -- Behind a pooler, a connection lacks the settings of claim.Planning. Every access has its index, and stale
        -- statistics must not make the planner avoid it. A disabled plan type costs 10^10, which would compile each
        -- statement with JIT.
        perform set_config(n.name, n.value, true)
        from (values ('plan_cache_mode', 'force_generic_plan'), ('jit', 'off'), ('enable_seqscan', 'off'), ('enable_bitmapscan', 'off'),
                     ('enable_hashjoin', 'off'), ('enable_mergejoin', 'off')) as n (name, value);
    end if;
    was := set_config('lock_timeout', '5s', true); -- longer than for a row
    lock table pgdispatch.claim_lock in share row exclusive mode;
    was := set_config('lock_timeout', '50ms', true);
end;
$$;
