package lab

import (
	"context"

	"github.com/pgdispatch/pgdispatch/test/chaos/internal/audit"
	"github.com/pgdispatch/pgdispatch/test/chaos/internal/temporal"
)

// definition is a definition that every workspace has.
type definition struct {
	// name identifies it in its workspace. starts is the type of what it starts.
	name, starts string
	// kind and policy are those of package audit.
	kind, policy string
	// timeout is its execution timeout. Nil means none.
	timeout any
	// fails means that its items fail. runs is how many runs they have.
	fails bool
	runs  int
}

// Definitions whose names are not types: of a workflow and an activity that end by their execution timeout, and of a
// workflow that ends on a signal.
const (
	timesOut   = "TimesOut"
	doTimesOut = "DoTimesOut"
	probe      = "Probe"
)

// Named returns the name of the definition of a type whose items name their ID under a policy.
func Named(starts, policy string) string { return starts + " " + policy }

// idPolicies are those of definitions for an ID that exists.
var idPolicies = []string{audit.Reject, audit.Reuse, audit.UseExisting}

var definitions = allDefinitions()

func allDefinitions() map[string]definition {
	const second = "1 second"
	list := []definition{
		{name: temporal.Work}, {name: temporal.Fail, fails: true}, {name: temporal.Again, runs: 2}, {name: temporal.Any},
		{name: temporal.Notes}, {name: temporal.Hold}, {name: timesOut, starts: temporal.Hold, timeout: second, fails: true},
		{name: probe, starts: temporal.Hold},
		{name: temporal.Do, kind: audit.Activity}, {name: temporal.DoFail, kind: audit.Activity, fails: true},
		{name: temporal.DoTwice, kind: audit.Activity}, {name: temporal.DoHold, kind: audit.Activity, fails: true},
		{name: doTimesOut, starts: temporal.DoHold, kind: audit.Activity, timeout: second, fails: true},
	}
	for _, policy := range idPolicies {
		for _, d := range []definition{{starts: temporal.Work}, {starts: temporal.Again, runs: 2}, {starts: temporal.Notes},
			{starts: temporal.Hold}, {starts: temporal.Do, kind: audit.Activity}} {
			d.name, d.policy = Named(d.starts, policy), policy
			list = append(list, d)
		}
	}
	all := map[string]definition{}
	for _, d := range list {
		if d.starts == "" {
			d.starts = d.name
		}
		if d.kind == "" {
			d.kind = audit.Workflow
		}
		if d.policy == "" {
			d.policy = audit.Reject
		}
		d.runs = max(d.runs, 1)
		all[d.name] = d
	}
	return all
}

// define gives a workspace all definitions, and returns their IDs by name.
func define(ctx context.Context, in *Store, workspace string) (map[string]string, error) {
	ids := map[string]string{}
	for name, d := range definitions {
		var id string
		var options any
		if d.kind == audit.Activity {
			options = temporal.ActivityOptions
		}
		arguments := []any{workspace, name, d.starts, temporal.TaskQueue, d.timeout, d.kind, d.policy, options}
		if err := in.Row(ctx, "definition", arguments, &id); err != nil {
			return nil, err
		}
		ids[name] = id
	}
	return ids, nil
}
