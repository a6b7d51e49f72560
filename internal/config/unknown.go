package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pgdispatch/pgdispatch/internal/spelling"
)

const prefix = "PGDISPATCH_"

// alsoKnown are variables that this build reads beside those of the options.
var alsoKnown []string

// Know adds a variable that this build reads. Call it only from an init function.
func Know(variable string) { alsoKnown = append(alsoKnown, variable) }

// serviceLink matches the variables that Kubernetes sets in every pod for a Service whose name starts with pgdispatch.
var serviceLink = regexp.MustCompile(`^PGDISPATCH_([A-Z0-9_]+_)?` +
	`(SERVICE_HOST=|SERVICE_PORT(_[A-Z0-9_]+)?=|PORT=(tcp|udp|sctp)://|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?=)`)

// UnknownVariable is a variable that looks like a setting and is none.
type UnknownVariable struct {
	Name    string
	Nearest string // the one that was probably meant, or empty
}

// String names the variable, and the one that was probably meant.
func (u UnknownVariable) String() string {
	if u.Nearest == "" {
		return u.Name + " is ignored: there is no such variable"
	}
	return fmt.Sprintf("%s is ignored: there is no such variable; did you mean %s?", u.Name, u.Nearest)
}

// UnknownVariables returns the variables of an environment, such as os.Environ returns, that start with PGDISPATCH_ and
// that no command reads, sorted by name. Empty variables count as unset.
func UnknownVariables(environment []string) []UnknownVariable {
	known := slices.Concat([]string{configVariable}, alsoKnown)
	for _, o := range RunOptions {
		known = append(known, o.Variable)
		if o.Secret() {
			known = append(known, o.Variable+"_FILE")
		}
	}
	var unknown []UnknownVariable
	for _, variable := range environment {
		name, value, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(strings.ToUpper(name), prefix) && value != "" &&
			!slices.Contains(known, name) && !serviceLink.MatchString(variable) {
			unknown = append(unknown, UnknownVariable{Name: name, Nearest: nearestVariable(name, known)})
		}
	}
	slices.SortFunc(unknown, func(a, b UnknownVariable) int { return cmp.Compare(a.Name, b.Name) })
	return unknown
}

// nearestVariable returns the known variable that was probably meant, or "". The prefix counts for nothing: it may have
// been put before a variable that has none, such as DATABASE_URL.
func nearestVariable(name string, known []string) string {
	bare := strings.TrimPrefix(strings.ToUpper(name), prefix)
	distanceTo := func(variable string) int {
		variable = strings.TrimPrefix(variable, prefix)
		return min(spelling.Distance(bare, variable), spelling.Distance(strings.TrimSuffix(bare, "_FILE"), variable)+1)
	}
	nearest := slices.MinFunc(known, func(a, b string) int { return distanceTo(a) - distanceTo(b) })
	if distanceTo(nearest) <= max(2, len(strings.TrimPrefix(nearest, prefix))/3) {
		return nearest
	}
	return ""
}
