package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/postgres"
	"github.com/spf13/pflag"
)

// addWho adds the flag that says who makes a change.
func addWho(flags *pflag.FlagSet, who *string) {
	flags.StringVar(who, "by", defaultWho(), "name for the log of changes (default: this user and machine)")
	flags.Lookup("by").DefValue = "" // differs per machine; the usage text describes it
}

func checkWho(who string) error {
	if !operate.ValidWho(who) {
		return fmt.Errorf("--by is %.80q: it must have 1 to 200 characters and no control characters", who)
	}
	return nil
}

func checkLimit(limit int) error {
	if limit < 1 || limit > 10000 {
		return fmt.Errorf("--limit is %d: it must be a whole number from 1 to 10000", limit)
	}
	return nil
}

func checkBefore(before int64) error {
	if before < 0 {
		return fmt.Errorf("--before is %d: it must be an ID", before)
	}
	return nil
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
