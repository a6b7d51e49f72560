package schedule

import "time"

// WorkspaceID is a workspace ID.
type WorkspaceID [16]byte

// Epoch identifies a period in which no commit was lost. Receipts of another epoch are invalid. Zero means that there
// is no epoch yet.
type Epoch [16]byte

// Position is a position in a level of a workspace. Items are taken by run_at, then by ID.
type Position struct {
	Due time.Time
	ID  int64
}

// Before reports whether p comes before q.
func (p Position) Before(q Position) bool {
	return p.Due.Before(q.Due) || p.Due.Equal(q.Due) && p.ID < q.ID
}

// Receipt bounds how many items hold a slot, by lease tokens: an item that takes a slot draws the next token. No holder
// has a token below Floor, and at most Held holders have a token up to To. The zero value always holds.
type Receipt struct {
	Floor int64
	Held  int
	To    int64
}

// Entry asks for items of one level of a workspace that have the same limit key, or none.
type Entry struct {
	Workspace WorkspaceID
	Priority  int
	Key       string
	Items     int
	// From is the first position at which an item may wait, as far as known.
	From    Position
	Receipt Receipt
	// Burst means that these items may go beyond the limit of their workspace, up to its burst limit.
	Burst bool
	// Rated means that the workspace had a rate of starts when it was last asked for.
	Rated bool
	// Startable is the last time at which something other than the replicas held these items back, as far as this replica
	// knows. Zero means that it knows of none. Items that became due later were startable when they became due.
	Startable time.Time

	aged int // how many of Items are asked for because of their age
}

// Proposal is what a claim is asked to take, in order.
type Proposal struct {
	// Want is what it was made for.
	Want    Want
	AtMost  int
	Entries []Entry
	// Unanswered is how many unanswered starts to repeat; they come first. Alone means that the start to repeat may
	// have crashed its earlier holders, and that nothing else may be claimed with it.
	Unanswered int
	Alone      bool
	// Leased bounds the leased items of all workspaces.
	Leased Receipt
	Epoch  Epoch
}

// Empty reports whether the proposal asks for nothing.
func (p Proposal) Empty() bool { return len(p.Entries) == 0 && p.Unanswered == 0 }

// Want is what a replica can take now.
type Want struct {
	// Free is the number of free workers. Holding is how many items the replica holds.
	Free, Holding int
	// Reserved is how many of the free workers are left to items that were not sent before. The others may repeat
	// unanswered starts.
	Reserved int
	// Fresh means that unanswered starts are repeated only if nothing else waits.
	Fresh bool
	// Limited means that namespaces are limited, so that a claim may return less than it asks for.
	Limited bool
	// Careful means that another transaction keeps rows locked. Then only the highest level of a workspace is asked for,
	// because its first item may be locked.
	Careful bool
}

// Standing is the state of a workspace at a claim.
type Standing struct {
	// Granted is how many items the workspace's limits allowed. Taken is how many were taken.
	Granted, Taken int
	// Held is how many of the workspace's items hold a slot, including those taken. Limit is how many may; it is also zero
	// if the workspace is paused.
	Held, Limit int
	// BurstLimit is how many may while no other workspace needs the workers. If it is not above Limit, it allows no more.
	BurstLimit int
	Paused     bool
	// Counted is how many holders were counted. Zero means that the receipt sufficed. Bound means that Held is only an
	// upper bound.
	Counted int
	Bound   bool
	Receipt Receipt
	// Next is the first item left at this level, due or not. Nil means that none waits.
	Next *Position
	// RetryIn is the time until the workspace's rate limit allows another item. Zero means that it allows one now.
	RetryIn time.Duration
	// Rated reports whether the workspace has a rate of starts.
	Rated bool
	// PassedOver means that due items were skipped because their namespaces accept no workflows.
	PassedOver bool
	// Number is the workspace's number in notifications.
	Number int64
	// Own and All are the state of the entry's limit key in the workspace and over all workspaces. They mean nothing
	// without a key.
	Own, All KeyStanding
}

// leaves reports whether an item that was due at that time is left.
func (st Standing) leaves(at time.Time) bool { return st.Next != nil && !st.Next.Due.After(at) }

// KeyStanding is the state of a limit key after a claim.
type KeyStanding struct {
	// Room is how many more items of the key may hold a slot. A key without a limit has room for NoLimit.
	Room int
	// RetryIn is the time until the key's rates allow another item. Zero means that they allow one now.
	RetryIn time.Duration
}

// NoLimit is the room of a limit key that has no limit.
const NoLimit = unknownLimit

// Answer is what a claim took, and the state of the workspaces.
type Answer struct {
	Epoch Epoch
	// At is the time up to which the claim took due items. What is left and was due then was locked. An item that came
	// later may be left although it is due when the answer is applied.
	At time.Time
	// Paused means that the settings stop all claims.
	Paused bool
	// Limited means that namespaces were limited.
	Limited bool
	// Room is how many items the global lease limit W allowed the claim to take.
	Room int
	// Leased are the tokens of leased items beyond those that the proposal's receipt bounds. Last is the last token
	// that was drawn before this claim.
	Leased []int64
	Last   int64
	// Standings has one row per entry of the proposal.
	Standings []Standing
	// Unanswered is how many unanswered starts were taken.
	Unanswered int
}

// Full is a workspace that is at its limit, or at its burst limit if it has one, and has more items due.
type Full struct {
	Workspace     WorkspaceID
	Active, Limit int
}

// Change is a change of a workspace.
type Change struct {
	Workspace WorkspaceID
	Number    int64 // zero if unknown
	// Waits means that items wait at Priority from Due on. Items is then how many came, or zero if unknown. Without Waits,
	// at most Items items gave their slots back; zero means that a limit changed.
	Waits    bool
	Priority int
	Due      time.Time
	Items    int
	// Key is the limit key of the items that wait; empty means that they have none.
	Key string
	// Again means that an item waits again or at another position, and may have given its slot back.
	Again bool
	// Keys are the limit keys of the items that gave their slots back.
	Keys []string
}
