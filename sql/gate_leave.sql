-- reads
-- Off duty, and the gate open: this session's advisory locks are these two.
select pg_advisory_unlock_all()
