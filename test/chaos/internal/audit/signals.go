package audit

import "strings"

// Signal is a signal in the books of the application that sent it.
type Signal struct {
	// Payload identifies it among those of its execution. An application sends one after another, in this order.
	Payload int
	// Acknowledged means that its commit was confirmed, Unknown that the answer was lost. Otherwise it was rolled back.
	Acknowledged, Unknown bool
}

// Signals compares the signals that were sent to an execution with those that its workflow has received: each
// acknowledged one once, one whose answer was lost at most once, no other, and all in their order.
func Signals(execution string, sent []Signal, received []int) []Violation {
	left := received
	for _, s := range sent {
		there := len(left) > 0 && left[0] == s.Payload && (s.Acknowledged || s.Unknown)
		if there {
			left = left[1:]
		} else if s.Acknowledged {
			return []Violation{violation(RuleSignalOnce, "%s was sent %v, and received %v", execution, sent, received)}
		}
	}
	if len(left) > 0 {
		return []Violation{violation(RuleSignalOnce, "%s was sent %v, and received %v", execution, sent, received)}
	}
	return nil
}

// Push is a report of an end by an application.
type Push struct {
	// Execution is the execution. Marker is in the reason or the result that the application reported.
	Execution, Marker string
	// First means that the answer was: this is the first report. Late means that the answer was: it is not. Neither
	// means that the answer does not tell, or was lost.
	First, Late bool
}

// RulePushed requires that the first report of an end counts, and no other.
const RulePushed = "the first report of an end counts"

// Pushes compares the reports of ends with what the rows say.
func Pushes(pushes []Push, found []Found) []Violation {
	var violations []Violation
	first, said := map[string]string{}, map[string]string{}
	for _, f := range found {
		said[f.Execution] = f.Said
	}
	for _, p := range pushes {
		text, exists := said[p.Execution]
		if !exists {
			continue // judged as a row
		}
		there := strings.Contains(text, p.Marker)
		switch {
		case p.First && first[p.Execution] != "":
			violations = append(violations, violation(RulePushed, "%s was told that %s and %s are the first report",
				p.Execution, first[p.Execution], p.Marker))
		case p.First && !there:
			violations = append(violations,
				violation(RulePushed, "%s was first reported as %s and says %q", p.Execution, p.Marker, text))
		case p.Late && there:
			violations = append(violations,
				violation(RulePushed, "%s was told that %s is not the first report, and says %q", p.Execution, p.Marker, text))
		}
		if p.First {
			first[p.Execution] = p.Marker
		}
	}
	return violations
}
