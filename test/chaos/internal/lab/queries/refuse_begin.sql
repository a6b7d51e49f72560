-- A trigger of an application that refuses every update of some items.
create table public.chaos_refused (execution_id uuid primary key);
create function public.chaos_refuse() returns trigger language plpgsql security definer as $$
begin
    if exists (select from public.chaos_refused r where r.execution_id = new.execution_id) then
        raise exception 'the audit refuses execution %', new.execution_id;
    end if;
    return null;
end;
$$;
create trigger chaos_refuse after update on pgdispatch.workflow_execution_queue for each row execute function public.chaos_refuse();
