-- reads
-- From now on, nobody notifies.
select setval('pgdispatch.gate', 2)
