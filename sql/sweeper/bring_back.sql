-- CLAIMED -> CLAIMED
-- Brings back times that are ahead of the clock: $1 at most, of each kind. See the function. Returns how many rows it
-- changed, whether there may be more, and the transaction ID before which all transactions must have ended when it is
-- called again.
select b.times, b.more, b.open_to
from pgdispatch.bring_back($1::integer) b
