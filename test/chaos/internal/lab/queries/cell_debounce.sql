-- $1 workspace, $2 definition.
select e.execution_id::text
from pgdispatch.enqueue($1::text::uuid, $2::text::uuid, '{"ms": 0}', key => 'debounced', on_conflict => 'debounce', quiet => '3 s') e
