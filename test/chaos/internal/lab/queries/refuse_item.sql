-- $1 execution
insert into public.chaos_refused values ($1::text::uuid)
