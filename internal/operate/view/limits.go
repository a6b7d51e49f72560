package view

import (
	"fmt"
	"strings"

	"github.com/pgdispatch/pgdispatch/internal/operate"
)

// fullNamed is how many full limits are named.
const fullNamed = 3

// FullLimits says how many limits of keys are full, how many items wait for them, and names those for which the most
// wait. It is empty if none is full.
func FullLimits(u operate.LimitUse) string {
	full := u.Full()
	if len(full) == 0 {
		return ""
	}
	text := Number(int64(len(full)))
	if len(full) == operate.MostLimits {
		text += "+"
	}
	it := "them"
	if len(full) == 1 {
		it = "it"
	}
	waiting := AtLeast(u.Behind, u.BehindExact) + plural(u.Behind, " item waits", " items wait")
	text += fmt.Sprintf(", %s for %s: ", waiting, it)
	named := []string{}
	for _, l := range full[:min(len(full), fullNamed)] {
		named = append(named, fmt.Sprintf("%s (%s)", KeyLimitName(l), AtLeast(l.Waiting, l.WaitingExact)))
	}
	text += strings.Join(named, ", ")
	if more := len(full) - len(named); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// KeyLimitName names a limit by its key and what it covers.
func KeyLimitName(l operate.KeyLimit) string { return Printable(l.Key) + " " + whereLimited(l) }

// whereLimited says what a limit covers.
func whereLimited(l operate.KeyLimit) string {
	if l.WorkspaceID == "" {
		return "over all workspaces"
	}
	return "in " + Printable(l.Workspace)
}
