-- reads
-- From now on, whoever commits work notifies. True once nobody is under way who was told before that this is not needed.
select case setval('pgdispatch.gate', 1) when 1 then pg_try_advisory_xact_lock(pgdispatch.gate_key()) end
