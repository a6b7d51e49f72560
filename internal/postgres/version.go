package postgres

import (
	"fmt"
	"regexp"
	"strconv"
)

// OldestMajor is the oldest major version of Postgres that has the features that pgdispatch uses.
const OldestMajor = 15

// TooOldError refuses the connection to a server that is too old.
type TooOldError struct{ Version string }

// Error implements error.
func (e *TooOldError) Error() string {
	return fmt.Sprintf("Postgres %s is too old for pgdispatch: upgrade the server to Postgres %d or newer", e.Version,
		OldestMajor)
}

var leadingNumber = regexp.MustCompile(`^[0-9]+`)

// checkVersion checks what a server calls its version, such as "15.18 (Debian 15.18-0+deb12u1)" or "19beta2". It
// accepts what it cannot read, which a proxy may say.
func checkVersion(version string) error {
	if major, err := strconv.Atoi(leadingNumber.FindString(version)); err == nil && major < OldestMajor {
		return &TooOldError{version}
	}
	return nil
}
