-- Whether an execution has what belongs to its status: the table's constraint. See item_is_whole.
create or replace function pgdispatch.execution_is_whole(status text, started_at timestamptz, finished_at timestamptz) returns boolean
language plpgsql immutable parallel safe
as $$
begin
    if status = 'STARTING' then
        return finished_at is null;
    elsif status = 'RUNNING' then
        return finished_at is null and started_at is not null;
    end if;
    return finished_at is not null and status in ('COMPLETED', 'FAILED', 'CANCELED', 'TERMINATED', 'TIMED_OUT');
end;
$$;
