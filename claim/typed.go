package claim

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What people type is read here, so that the command line and the pages take the same and refuse it in the same words.

const (
	maxWho    = 200
	maxReason = 500
	// MaxMaxClaims is the highest max-claims, and maxLimit a workspace's highest limit.
	MaxMaxClaims = 100_000
	maxLimit     = 100_000
	// minRate and maxRate bound a workspace's starts a second.
	minRate, maxRate = 0.0001, 100_000
)

// ValidWho says whether the log of changes can have this as who did something.
func ValidWho(who string) bool {
	n := utf8.RuneCountInString(who)
	return n >= 1 && n <= maxWho && utf8.ValidString(who) && !strings.ContainsFunc(who, unicode.IsControl)
}

// ValidReason says whether the log of changes and Temporal can have this as why a workflow is to end.
func ValidReason(reason string) bool {
	return utf8.RuneCountInString(reason) <= maxReason && Clean(reason) == reason
}

// PlanChange reads the name of a plan, whatever its case.
func PlanChange(plans []Plan, text string) (WorkspaceChange, error) {
	names := make([]string, len(plans))
	for n, plan := range plans {
		if names[n] = plan.Name; strings.EqualFold(plan.Name, text) {
			return WorkspaceChange{Plan: plan.Name}, nil
		}
	}
	return WorkspaceChange{}, fmt.Errorf("there is no plan %.80q: use %s, or insert it into pgdispatch.workspace_tiers", text, strings.Join(names, ", "))
}

// LimitChange reads how many workflows may run at once, or "plan" for as many as the plan has.
func LimitChange(text string) (WorkspaceChange, error) {
	if text == "plan" {
		return WorkspaceChange{SetLimit: true}, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > maxLimit {
		return WorkspaceChange{}, fmt.Errorf("the limit is %.80q: it must be plan, or a whole number from 0 to %d; 0 starts nothing", text, maxLimit)
	}
	return WorkspaceChange{SetLimit: true, Limit: &n}, nil
}

// RateChange reads how many workflows may be started a second, or "off" for as many as can be.
func RateChange(text string) (WorkspaceChange, error) {
	if text == "off" {
		return WorkspaceChange{SetStarts: true}, nil
	}
	rate, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(rate) || rate < minRate || rate > maxRate {
		return WorkspaceChange{}, fmt.Errorf("the rate is %.80q: it must be off, or from %g to %d starts a second; to start nothing, pause the workspace", text, minRate, maxRate)
	}
	return WorkspaceChange{SetStarts: true, Starts: &rate}, nil
}
