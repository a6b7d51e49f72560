package claim

import "time"

// ClaimLockTimeout is the lock_timeout for connections that claim: how long a combined settle and claim waits for the
// row of an item that it settles. It is short because all other claims queue behind it. Items that it could not settle
// are settled separately, where they block no claim.
const ClaimLockTimeout = 100 * time.Millisecond
