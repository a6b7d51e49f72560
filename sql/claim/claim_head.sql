-- CLAIMED -> PENDING
-- The item that a claim of one is about to take. Run it just before the claim, with the claim's parameters $1 and $4 to
-- $23 as $1 to $21. It takes claim_lock, so that the claim after it in the same transaction takes the same item.
select q.id, q.workspace_id
from pgdispatch.claim_choose($1, $2::text::uuid, $3, $4, $5, $6, $7, $8::text[]::uuid[], $9, $10, $11, $12, $13, $14, $15,
                             $16, $17, $18, $19, $20, $21) c
join pgdispatch.workflow_execution_queue q on q.ctid = c.heads[1]
