-- Any statement that takes a snapshot.
select count(*) from pgdispatch.settings
