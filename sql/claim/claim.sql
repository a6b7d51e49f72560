-- PENDING -> CLAIMED; CLAIMED -> PENDING
-- $1 owner, $2 lease, $3 watcher, $4 the owner's namespace, $5 the proposal, a claim_proposal in JSON. The last row has no
-- item: see the function.
select c.* from pgdispatch.claim($1, $2, $3, $4, $5::text::jsonb) c
