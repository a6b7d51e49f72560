-- Commits that must survive a crash.

-- function: commit_durably
-- Makes the caller's commit wait for the disk, and with it all earlier ones are durable. Returns true. Called where a
-- request to Temporal rests on the commit, or where it decides what nobody can be asked for again: see
-- docs/contributing/crashes.md. Replicas with PGDISPATCH_DURABLE_COMMITS=none wait for nothing.
create or replace function pgdispatch.commit_durably() returns boolean
language plpgsql volatile
as $$
begin
    if current_setting('synchronous_commit') = 'off' and current_setting('pgdispatch.durable_commits', true) is distinct from 'none' then
        perform set_config('synchronous_commit', 'on', true);
    end if;
    return true;
end;
$$;
