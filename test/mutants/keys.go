package main

const (
	keysFile     = "sql/functions/claim_keys.sql"
	keyDebitFile = "sql/functions/claim_key_debit.sql"
	ratesPart    = "sql/parts/rates.sql"
)

// keys: limits by key are counted as exactly as those of workspaces.
var keys = []mutant{
	{"key's limit in a workspace", "a workspace gets as many items of a key as requested",
		[]edit{{keysFile, "least(items[n], least(own_room[n], own_starts[n]) - used[first])", "items[n]"}},
		"./sql", "TestAMemoryThatLiesAboutKeysPassesNoLimit"},
	{"key's limit over all workspaces", "workspaces together get as many items of a key as requested",
		[]edit{{keysFile, "least(items[n], least(over_room[n], over_starts[n]) - used[first])", "items[n]"}},
		"./sql", "TestAMemoryThatLiesAboutKeysPassesNoLimit"},
	{"entries of a key share its room", "each entry of a claim gets the whole room of its key",
		[]edit{{keysFile, "first := array_position(own_names, own_names[n]);", "first := n;"},
			{keysFile, "first := array_position(keys, keys[n]);", "first := n;"}},
		"./sql", "TestAMemoryThatLiesAboutKeysPassesNoLimit"},
	{"rates count starts", "the starts of a key are not recorded",
		[]edit{{keyDebitFile, "and n.items > 0", "and false"}},
		"./sql", "TestRatesOfAKeyHoldInEveryWindow"},
	{"rates count a whole period", "starts are forgotten before their period is over",
		[]edit{{ratesPart, "s.until > at_time - p.per", "s.until > at_time"}},
		"./sql", "TestRatesOfAKeyHoldInEveryWindow"},
	{"an end names its key", "a replica is not told that a key has room",
		[]edit{{movedFile, "case when old.limit_key is not null then array[old.limit_key] end", "null::text[]"}},
		"./sql", "TestAKeyLimitsItsItemsAndNoOthers"},
	{"ends together name their keys", "a replica is not told that a key has room after a batch of ends",
		[]edit{{"sql/functions/finish_all.sql",
			"(select array_agg(distinct k.limit_key) from ended k where k.limit_key is not null)", "null::text[]"}},
		"./sql", "TestAKeyLimitsItsItemsAndNoOthers"},
	{"a key never changes", "the limit key of an item that holds a slot changes",
		[]edit{{"sql/functions/refuse_change.sql", " or new.limit_key is distinct from old.limit_key", ""}},
		"./sql", "TestAKeyIsCheckedAtTheInsertAndNeverChanges"},
	{"a change of a key's limit is announced", "a replica does not notice that a key's limit was raised",
		[]edit{{"sql/functions/limits_changed.sql", "select null from (select from changed limit 1) c",
			"select null where false"}},
		"./sql", "TestALimitOfAKeyIsReadByEachClaim"},
	{"full keys are not asked for", "a replica asks for items of a full key in vain",
		[]edit{{"claim/schedule/line.go", "s.turn(k, found.Room <= 0, not)", "s.turn(k, false, not)"}},
		"./claim/schedule", "TestAFullKeyDelaysNoOtherItemOfItsWorkspace"},
	{"keys are compared each minute", "a replica never finds out that a key has room again",
		[]edit{{"claim/schedule/load.go", "if !w.KeyFull && x != nil && x.blocked() {", "if false {"}},
		"./claim/schedule", "TestALoadReopensAKeyThatIsNotFull"},
}
