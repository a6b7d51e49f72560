-- reads
-- What the tokens of completion callbacks are made with.
select k.key from pgdispatch.callback_key k
