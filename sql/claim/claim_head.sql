-- CLAIMED -> PENDING
-- The item that a claim of one is about to take. Run it just before the claim, with the claim's owner, namespace and
-- proposal. It takes claim_lock, so that the claim after it in the same transaction takes the same item.
select q.id, q.workspace_id
from pgdispatch.claim_pick($1, $2, jsonb_populate_record(null::pgdispatch.claim_proposal, $3::text::jsonb)) c
join pgdispatch.workflow_execution_queue q on q.ctid = c.heads[1]
