-- writes the gate
-- From now on, transactions that commit work notify. Returns true once none is open that was told not to.
select case setval('pgdispatch.gate', 1) when 1 then pg_try_advisory_xact_lock(pgdispatch.gate_key()) end
