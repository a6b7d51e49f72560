package pgdispatch_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/pgdispatch/pgdispatch/internal/must"
	"github.com/stretchr/testify/require"
)

// The README, the workflow that publishes, and the defaults of the manifests must name the same things.
func TestReadmeInstallsWhatAReleasePublishes(t *testing.T) {
	t.Parallel()
	readme, release := readPage(t, "README.md"), readPage(t, ".github/workflows/release.yml")
	module := regexp.MustCompile(`(?m)^module (\S+)$`).FindStringSubmatch(readPage(t, "go.mod"))[1]
	require.Contains(t, readme, "\ngo install "+module+"/cmd/pgdispatch@latest\n")
	require.FileExists(t, "cmd/pgdispatch/main.go")
	require.NotRegexp(t, `(?m)^(replace|exclude)\b`, readPage(t, "go.mod"), "go install refuses a module that has them")

	image := regexp.MustCompile(`(?m)^ +IMAGE: (\S+)$`).FindStringSubmatch(release)[1]
	require.Contains(t, readme, "\ndocker pull "+image+":v1.2.3 ")
	require.Contains(t, readDeploy(t, "helm/pgdispatch/values.yaml"), "\n  repository: "+image+" ")
	require.Contains(t, readDeploy(t, "kubernetes/kustomization.yaml"), "\n    newName: "+image+" ")
	require.Contains(t, readPage(t, "docs/deploy.md"), "`"+image+":v1.2.3`")

	charts := regexp.MustCompile(`(?m)^ +CHARTS: (\S+)$`).FindStringSubmatch(release)[1]
	chart := regexp.MustCompile(`(?m)^name: (\S+)$`).FindStringSubmatch(readDeploy(t, "helm/pgdispatch/Chart.yaml"))[1]
	require.Contains(t, readme, "\nhelm install pgdispatch "+charts+"/"+chart+" --version 1.2.3 ")
	require.Contains(t, readPage(t, "docs/deploy.md"), "`"+charts+"/"+chart+" --version 1.2.3`")
	require.Contains(t, release, "helm package deploy/helm/pgdispatch ")
	require.Contains(t, release, `helm push "chart/`+chart+`-${VERSION#v}.tgz" "$CHARTS"`)
}

var action = regexp.MustCompile(`(?m)uses: (\S+)(.*)$`)

func TestWorkflowsRunTargetsOfTheMakefileAndPinnedActions(t *testing.T) {
	t.Parallel()
	makefile := readPage(t, "Makefile")
	files := must.Get(os.ReadDir(".github/workflows")).In(t)
	for _, file := range files {
		workflow := readPage(t, ".github/workflows/"+file.Name())
		for _, used := range action.FindAllStringSubmatch(workflow, -1) {
			if !strings.HasPrefix(used[1], "./") {
				require.Regexp(t, `@[0-9a-f]{40}$`, used[1], file.Name())
				require.Regexp(t, `^ # v\d+\.\d+\.\d+$`, used[2], used[1])
			}
		}
		commands := regexp.MustCompile(`run: make ([a-z -]+)`).FindAllStringSubmatch(workflow, -1)
		require.NotEmpty(t, commands)
		for _, command := range commands {
			for target := range strings.FieldsSeq(command[1]) {
				require.Contains(t, makefile, "\n"+target+":", file.Name())
			}
		}
	}
	majors := regexp.MustCompile(`(?m)^(\d+) `).FindAllStringSubmatch(readPage(t, ".ci/postgres.sums"), -1)
	var versions []string
	for _, major := range majors {
		versions = append(versions, major[1])
	}
	require.Contains(t, readPage(t, ".github/workflows/ci.yml"), "postgres: ["+strings.Join(versions, ", ")+"]\n")
}
