package operate

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

// User input is parsed here, so that the command line and the pages accept the same input with the same error messages.

const (
	maxWho    = 200
	maxReason = 500
	// MaxMaxClaims is the maximum of Settings.MaxClaims, and maxLimit the maximum limit of a workspace.
	MaxMaxClaims = 100_000
	maxLimit     = 100_000
	// minRate and maxRate bound a workspace's rate, in starts per second.
	minRate, maxRate = 0.0001, 100_000
)

// ValidWho reports whether who is valid as the author of a change in the audit log: 1 to 200 characters of valid UTF-8
// without control characters.
func ValidWho(who string) bool {
	n := utf8.RuneCountInString(who)
	return n >= 1 && n <= maxWho && utf8.ValidString(who) && !strings.ContainsFunc(who, unicode.IsControl)
}

// ValidReason reports whether reason is valid as the reason for stopping a workflow, in the audit log and in Temporal:
// up to 500 characters that Clean does not change.
func ValidReason(reason string) bool {
	return utf8.RuneCountInString(reason) <= maxReason && postgres.Clean(reason) == reason
}

// PlanChange parses the name of a plan, ignoring case. It returns an error if plans does not contain it.
func PlanChange(plans []Plan, text string) (WorkspaceChange, error) {
	names := make([]string, len(plans))
	for n, plan := range plans {
		if names[n] = plan.Name; strings.EqualFold(plan.Name, text) {
			return WorkspaceChange{Plan: plan.Name}, nil
		}
	}
	return WorkspaceChange{},
		fmt.Errorf("unknown plan %.80q: use %s, or insert it into pgdispatch.workspace_tiers", text,
			strings.Join(names, ", "))
}

// LimitChange parses the maximum number of concurrent workflows, or "plan" for the plan's limit.
func LimitChange(text string) (WorkspaceChange, error) {
	n, err := workflows("limit", text, "0 starts no workflows")
	return WorkspaceChange{SetLimit: err == nil, Limit: n}, err
}

// BurstChange parses the maximum number of concurrent workflows in a burst, or "plan" for the plan's burst limit.
func BurstChange(text string) (WorkspaceChange, error) {
	n, err := workflows("burst limit", text, "none above the limit means no burst")
	return WorkspaceChange{SetBurst: err == nil, Burst: n}, err
}

// workflows parses a number of concurrent workflows, or "plan", for which it returns nil. hint ends the error.
func workflows(name, text, hint string) (*int, error) {
	if text == "plan" {
		return nil, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > maxLimit {
		return nil, fmt.Errorf("the %s is %.80q: it must be plan or a whole number from 0 to %d; %s", name, text, maxLimit,
			hint)
	}
	return &n, nil
}

// RateChange parses the maximum number of starts per second, or "off" for no rate limit.
func RateChange(text string) (WorkspaceChange, error) {
	if text == "off" {
		return WorkspaceChange{SetStarts: true}, nil
	}
	rate, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(rate) || rate < minRate || rate > maxRate {
		return WorkspaceChange{},
			fmt.Errorf("the rate is %.80q: it must be off, or from %g to %d starts per second; to stop all starts, pause the "+
				"workspace", text, minRate, maxRate)
	}
	return WorkspaceChange{SetStarts: true, Starts: &rate}, nil
}
