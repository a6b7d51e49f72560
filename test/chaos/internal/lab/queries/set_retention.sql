-- $1 how long ended items are kept, $2 failed ones.
update pgdispatch.settings set retention = $1::interval, dead_letter_retention = $2::interval
