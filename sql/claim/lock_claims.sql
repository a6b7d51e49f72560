-- writes the lock of claims
-- For claim_line, which follows in the same transaction.
select pgdispatch.lock_claims()
