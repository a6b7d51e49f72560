package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

// didYouMean returns the end of an error about an unknown name, or "" if no name is near.
func didYouMean(name string, names []string) string {
	folded, original := make([]string, len(names)), map[string]string{}
	for n, known := range names {
		folded[n] = strings.ToLower(known)
		original[folded[n]] = known
	}
	nearest := config.Nearest(strings.ToLower(name), folded)
	if nearest == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %.80q?", original[nearest])
}

// oneOf returns the only name of those that differ from the given one by case. It is empty if there is none.
func oneOf(name string, same []string) (string, error) {
	switch len(same) {
	case 0:
		return "", nil
	case 1:
		return same[0], nil
	}
	quoted := make([]string, len(same))
	for n, s := range same {
		quoted[n] = strconv.Quote(view.Printable(s))
	}
	return "", fmt.Errorf("%.80q could be any of %s: write it as one of them is written", name, cut(strings.Join(quoted,
		", ")))
}

// workspaceNamed returns the workspaces with this ID or name, whatever its case if none is written like that, and
// otherwise the end of an error that suggests one.
func workspaceNamed(ctx context.Context, store *operate.Store, idOrName string) ([]operate.WorkspaceName, string,
	error) {
	found, err := store.FindWorkspaces(ctx, idOrName)
	if err != nil || len(found) > 0 {
		return found, "", err
	}
	names, err := store.WorkspaceNames(ctx, idOrName)
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

// definitionNamed returns the definition with this ID or name, whatever its case if none is written like that. It
// returns nil if there is none.
func definitionNamed(definitions []operate.Definition, idOrName string) (*operate.Definition, error) {
	var same []string
	for n, d := range definitions {
		if d.Name == idOrName || d.ID == strings.ToLower(idOrName) {
			return &definitions[n], nil
		}
		if strings.EqualFold(d.Name, idOrName) {
			same = append(same, d.Name)
		}
	}
	name, err := oneOf(idOrName, same)
	if err != nil || name == "" {
		return nil, err
	}
	return definitionNamed(definitions, name)
}

// asWritten replaces a filter's name that nothing has by the one that differs by case only. It returns false, and the
// end of an error that suggests another, if there is none.
func asWritten(name *string, names operate.Names) (bool, string, error) {
	written, err := oneOf(*name, names.Same)
	if err != nil || written == "" {
		return false, didYouMean(*name, names.Near), err
	}
	*name = written
	return true, "", nil
}
