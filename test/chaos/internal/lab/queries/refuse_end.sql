-- What an operator does after fixing the trigger. The second half is `pgdispatch items retry`.
drop function public.chaos_refuse() cascade;
drop table public.chaos_refused;
delete from pgdispatch.parked_items;
update pgdispatch.workflow_execution_queue set run_at = least(run_at, clock_timestamp()) - interval '1 microsecond' where status = 'PENDING';
