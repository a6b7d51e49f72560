-- writes the lock of claims
-- For claim_single, which follows in the same transaction.
select pgdispatch.lock_claims()
