package fault

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/test/internal/proxy"
)

// The quiet faults know statements by how their names begin. They import nothing of the product, so a statement that is
// changed may leave a name behind that fits none, and then a sweep counts as the settle that it looks like.
func TestEveryNameOfAStatementFitsOne(t *testing.T) {
	t.Parallel()
	statements := statements(t)
	require.NotEmpty(t, statements)
	var names []string
	for _, text := range statements {
		names = append(names, proxy.StatementName(text))
	}
	fits := func(prefix string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, prefix) })
	}
	for _, prefix := range slices.Concat(incidental, []string{claims, heartbeats, takes}) {
		if first, _, _ := strings.Cut(prefix, " "); first == "writes" || strings.ToUpper(first) == first {
			require.True(t, fits(prefix), prefix)
		}
	}
	require.True(t, isIncidental(proxy.StatementName(statements["sweep"])))
}

// templates matches what a file of statements uses several times, and its name.
var templates = regexp.MustCompile(`(?s)\{\{ define "(\w+)" -?\}\}(.*?)\{\{- end \}\}`)

// statements returns the product's statements by name.
func statements(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../../../sql/*/*.sql")
	require.NoError(t, err)
	all := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		whole := string(text)
		for _, template := range templates.FindAllStringSubmatch(whole, -1) {
			whole = strings.ReplaceAll(whole, `{{ template "`+template[1]+`" }}`, strings.TrimSpace(template[2]))
		}
		for _, section := range strings.Split("\n"+whole, "\n-- name: ")[1:] {
			name, statement, _ := strings.Cut(section, "\n")
			all[name] = statement
		}
	}
	return all
}
