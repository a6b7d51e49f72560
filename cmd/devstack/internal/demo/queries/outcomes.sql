-- How every item ended, and whether it was asked to fail.
select id, execution_id, status, params ? 'fail_at' as should_fail, coalesce(last_error, '') as last_error
from pgdispatch.workflow_execution_queue
order by id
