package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
	"github.com/pgdispatch/pgdispatch/internal/spelling"
)

// didYouMean returns the end of an error about an unknown name, or "" if no name is likely.
func didYouMean(name string, names []string) string {
	likely := spelling.Likely(name, names)
	if len(likely) == 0 {
		return ""
	}
	return "; did you mean " + quoted(likely, " or ") + "?"
}

func quoted(names []string, between string) string {
	all := make([]string, len(names))
	for n, name := range names {
		all[n] = strconv.Quote(view.Printable(name))
	}
	return cut(strings.Join(all, between))
}

// oneOf returns the only name of those that differ from the given one by case. It is empty if there is none.
func oneOf(name string, same []string) (string, error) {
	switch len(same) {
	case 0:
		return "", nil
	case 1:
		return same[0], nil
	}
	return "", fmt.Errorf("%.80q could be any of %s: write it as one of them is written", name, quoted(same, ", "))
}

// workspaceNamed returns the workspaces with this ID or name, whatever its case if none is written like that, and
// otherwise the end of an error that suggests one.
func workspaceNamed(ctx context.Context, store *operate.Store, idOrName string) ([]operate.WorkspaceName, string,
	error) {
	found, err := store.FindWorkspaces(ctx, idOrName)
	if err != nil || len(found) > 0 {
		return found, "", err
	}
	names, err := store.Names(ctx, operate.NamedWorkspace, idOrName)
	if err != nil {
		return nil, "", err
	}
	name, err := oneOf(idOrName, names.Same)
	if err != nil {
		return nil, "", err
	}
	if name == "" {
		return nil, didYouMean(idOrName, names.Near), nil
	}
	found, err = store.FindWorkspaces(ctx, name)
	return found, "", err
}

// givenWorkspace returns the workspace that the flag --workspace gives by ID or name, or none if it gives none.
func givenWorkspace(ctx context.Context, store *operate.Store, idOrName string) (found operate.WorkspaceName,
	err error) {
	if idOrName != "" {
		found, err = workspaceOf(ctx, store, idOrName)
	}
	if err != nil {
		return found, fmt.Errorf("--workspace: %w", err)
	}
	return found, nil
}
