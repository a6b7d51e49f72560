-- reads
-- The key for the tokens of completion callbacks.
select k.key from pgdispatch.callback_key k
