package main

const (
	claimFile      = "sql/functions/claim.sql"
	roomFile       = "sql/parts/claim_room.sql"
	turnFile       = "sql/parts/claim_turn.sql"
	answerFile     = "sql/parts/claim_answer.sql"
	arrivedFile    = "sql/functions/claim_arrived.sql"
	unansweredFile = "sql/functions/claim_unanswered.sql"
	lockClaims     = "lock table pgdispatch.claim_lock in share row exclusive mode;"
)

// limits: counts are exact, because one claim at a time counts, after it has its lock, and LIMIT is evaluated once.
var limits = []mutant{
	{"one claim at a time", "claims do not wait for each other",
		[]edit{{claimFile, lockClaims, ""}},
		"./sql", "TestAClaimThatWaitedCountsWhatItWaitedFor"},
	{"W is counted under the lock", "W is counted before the lock is there",
		[]edit{
			{claimFile, lockClaims, "at_most := least(at_most, (select s.max_claims from pgdispatch.settings s) - (select count(*) from pgdispatch.workflow_execution_queue c where c.status = 'CLAIMED'));" + lockClaims},
			{roomFile, "s.paused, least(at_most, s.max_claims - n.leased)", "s.paused, at_most"},
		},
		"./sql", "TestAClaimThatWaitedCountsWhatItWaitedFor"},
	{"claim demands READ COMMITTED", "a claim counts in a snapshot that is older than its lock",
		[]edit{{claimFile, "if current_setting('transaction_isolation') <> 'read committed' then", "if false then"}},
		"./sql", "TestClaimDemandsReadCommitted"},
	{"W", "nothing is counted",
		[]edit{{roomFile, "s.paused, least(at_most, s.max_claims - n.leased)", "s.paused, at_most"}},
		"./sql", "TestGlobalCapLimitsLeasesOverAllWorkspaces"},
	{"W holds for repeated starts", "an unanswered start is claimed without room",
		[]edit{{unansweredFile, "limit at_most", ""}},
		"./sql", "TestGlobalCapHoldsForUnansweredStartsToo"},
	{"a lease that is being renewed counts", "a lease that looks expired is not counted, although it could not be put back",
		[]edit{{roomFile, "where q.status = 'CLAIMED' and q.lease_token >= token_floor) n;", "where q.status = 'CLAIMED' and q.lease_token >= token_floor and q.lease_expires_at > start_time) n;"}},
		"./sql", "TestALeaseThatIsBeingRenewedIsCounted"},
	{"workspace limit", "a workspace with room for one gets as many as are asked for",
		[]edit{{turnFile, "limit least(p.slots - p.active, ", "limit least("}},
		"./sql", "TestPlanLimitsWhatAWorkspaceHolds"},
	{"workspace's rate", "a workspace with one token gets as many as are asked for",
		[]edit{{turnFile, "floor(p.tokens), ", ""}},
		"./sql", "TestARateLimitGivesOneSecondsWorthAtOnceAndThenByTime"},
	{"freed slot counts once", "a hint is read by a claim whose snapshot does not see it, and by the next again",
		[]edit{{"sql/functions/changed_since.sql", "and pg_visible_in_snapshot(h.xid, (select pg_current_snapshot()))", ""}},
		"./sql", "TestAFreedSlotCountsOnceWhateverWasOpen"},
	{"claim's LIMIT", "what each workspace gives is not limited in all",
		[]edit{{turnFile, ") head\n    limit room - cardinality(claimed)", ") head"}},
		"./sql", "TestClaimGivesAtMostWhatWasAskedFor"},
	{"materialised claim", "the LIMIT is evaluated again for each row: a sub-select instead of a materialised list",
		[]edit{
			{turnFile, "), taken as (", ") u where u.at = c.ctid offset 0) returning c.id, c.workspace_id), unused as ("},
			{turnFile, "), heads as materialized (", "), taken as (update pgdispatch.workflow_execution_queue c " + takeIt + " where exists (select from ("},
			{turnFile, "select h.at from heads h", "select null::tid"},
			{turnFile, "where (select count(*) from heads) < room - cardinality(claimed) or p.place <= (select max(h.place) from heads h)", ""},
		},
		"./sql", "TestClaimGivesAtMostWhatWasAskedFor"},
	{"arrivals within the limit", "what has arrived is given to a workspace that has no room for all of it",
		[]edit{{arrivedFile, "+ n.items <= l.slots", "+ n.items <= 1000000"}},
		"./sql", "TestWhatArrivedWaitsForItsTurnWhereNotAllOfItFits"},
	{"arrivals within W", "what has arrived is given although W has no room for all of it",
		[]edit{{arrivedFile, "least(room, 999)", "999"}},
		"./sql", "TestWhatArrivedWaitsForItsTurnWhereNotAllOfItFits"},
	{"arrivals beside a change", "what has arrived is given by the limits from before a change of them",
		[]edit{{arrivedFile, "then c.freed > 0 and c.priority is null", "then true"}},
		"./sql", "TestWhatArrivedWaitsForItsTurnWhereNotAllOfItFits"},
	{"arrivals behind what waits", "what has arrived goes before what waits",
		[]edit{{claimFile, "if not (ready or ", "if not ("}},
		"./sql", "TestWhatArrivedDoesNotOvertakeWhatIsReady"},
	{"arrivals that are locked", "what has arrived and was locked is forgotten",
		[]edit{{arrivedFile, "if cardinality(items_at) < items then", "if cardinality(items_at) = 0 then"}},
		"./sql", "TestWhatArrivedAndIsLockedIsGivenWhenItIsNot"},
	{"pause of everything", "a paused database is claimed from",
		[]edit{{roomFile, "room := case when halted", "room := case when false"}},
		"./sql", "TestGlobalPauseStopsClaims"},
}

// takeIt is what a claim does to an item.
const takeIt = "set status = 'CLAIMED', claimed_by = owner, claimed_at = clock_timestamp(), lease_expires_at = clock_timestamp() + lease, " +
	"lease_token = nextval('pgdispatch.lease_tokens'), attempt_count = c.attempt_count + 1"
