package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

// makesChange is the annotation of the flag that addWho adds.
const makesChange = "makes a change"

// addWho adds the flag that says who makes a change.
func addWho(flags *pflag.FlagSet, who *string) {
	flags.StringVar(who, "by", defaultWho(), "name for the log of changes (default: this user and machine)")
	by := flags.Lookup("by")
	by.DefValue = "" // differs per machine; the usage text describes it
	by.Annotations = map[string][]string{makesChange: nil}
}

// checkShared checks the flags that mean the same on every command that has them.
func checkShared(flags *pflag.FlagSet) error {
	var faults []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	if output, err := flags.GetString("output"); err == nil {
		refuse(output != "table" && output != "json", "--output is %q: it must be table or json", output)
	}
	if limit, err := flags.GetInt("limit"); err == nil {
		refuse(limit < 1 || limit > 10000, "--limit is %d: it must be a whole number from 1 to 10000", limit)
	}
	if before, err := flags.GetInt64("before"); err == nil {
		refuse(before < 0, "--before is %d: it must be an ID", before)
	}
	if by := flags.Lookup("by"); by != nil && by.Annotations != nil {
		refuse(!operate.ValidWho(by.Value.String()),
			"--by is %.80q: it must have 1 to 200 characters and no control characters", by.Value)
	}
	return errors.Join(faults...)
}

// workspaceOf finds the workspace with this ID or name. It returns an error unless exactly one matches.
func workspaceOf(ctx context.Context, store *operate.Store, idOrName string) (operate.WorkspaceName, error) {
	none := operate.WorkspaceName{}
	if postgres.Clean(idOrName) != strings.TrimSpace(idOrName) || strings.TrimSpace(idOrName) == "" {
		return none, fmt.Errorf("%.80q is not a workspace ID (a UUID) or name", idOrName)
	}
	found, suggestion, err := workspaceNamed(ctx, store, idOrName)
	switch {
	case err != nil:
		return none, err
	case len(found) == 0:
		return none, fmt.Errorf("no workspace has the ID or name %.80q: see `pgdispatch workspaces list`%s", idOrName,
			suggestion)
	case len(found) > 1:
		ids := make([]string, len(found))
		for n, w := range found {
			ids[n] = w.ID
		}
		return none, fmt.Errorf("%d workspaces are named %.80q: use an ID, one of %s", len(found), idOrName,
			strings.Join(ids, ", "))
	}
	return found[0], nil
}
