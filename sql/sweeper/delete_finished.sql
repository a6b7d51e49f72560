-- writes, by deleting finished items, dead letters and executions
-- $1 how many items to look at. Deletes those whose retention is over.
select d.items, d.dead_letters, d.executions, d.more
from pgdispatch.delete_finished($1::integer) d
