package lint_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestContainerFileBuildsWithTheModulesGoAndRunsAReplica(t *testing.T) {
	t.Parallel()
	file := read(t, "deploy/container/Dockerfile")
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "go.mod"))
	require.Contains(t, file, "FROM --platform=$BUILDPLATFORM golang:"+version[1]+"-",
		"the image compiles on the builder's platform")
	require.Contains(t, file,
		"\nARG TARGETOS\nARG TARGETARCH\nRUN GOOS=$TARGETOS GOARCH=$TARGETARCH make build VERSION=$VERSION\n")
	require.Contains(t, file, "\nUSER 65532:65532\n")
	require.Contains(t, file, "\nCMD [\"run\"]\n")
	require.Contains(t, file, "\nEXPOSE 9464\n", "the port of deploy/kubernetes")
	require.Contains(t, read(t, "Makefile"), "\nOUT         := bin/pgdispatch\n",
		"make build writes the file that the container copies")
}

// The README, the workflow that publishes, and the defaults of the manifests must name the same things.
func TestReadmeInstallsWhatAReleasePublishes(t *testing.T) {
	t.Parallel()
	readme, release := read(t, "README.md"), read(t, ".github/workflows/release.yml")
	require.Contains(t, read(t, "go.mod"), "module "+module+"\n")
	require.Contains(t, readme, "\ngo install "+module+"/cmd/pgdispatch@latest\n")
	require.FileExists(t, "cmd/pgdispatch/main.go")
	require.NotRegexp(t, `(?m)^(replace|exclude)\b`, read(t, "go.mod"), "go install refuses a module that has them")

	image := regexp.MustCompile(`(?m)^ +IMAGE: (\S+)$`).FindStringSubmatch(release)[1]
	require.Contains(t, readme, "\ndocker pull "+image+":v1.2.3 ")
	require.Contains(t, read(t, "deploy/helm/pgdispatch/values.yaml"), "\n  repository: "+image+" ")
	require.Contains(t, read(t, "deploy/kubernetes/kustomization.yaml"), "\n    newName: "+image+" ")
	require.Contains(t, read(t, "docs/deploy.md"), "`"+image+":v1.2.3`")

	charts := regexp.MustCompile(`(?m)^ +CHARTS: (\S+)$`).FindStringSubmatch(release)[1]
	chart := regexp.MustCompile(`(?m)^name: (\S+)$`).FindStringSubmatch(read(t, "deploy/helm/pgdispatch/Chart.yaml"))[1]
	require.Contains(t, readme, "\nhelm install pgdispatch "+charts+"/"+chart+" --version 1.2.3 ")
	require.Contains(t, read(t, "docs/deploy.md"), "`"+charts+"/"+chart+" --version 1.2.3`")
	require.Contains(t, release, "helm package deploy/helm/pgdispatch ")
	require.Contains(t, release, `helm push "chart/`+chart+`-${VERSION#v}.tgz" "$CHARTS"`)
}

var action = regexp.MustCompile(`(?m)uses: (\S+)(.*)$`)

func TestWorkflowsRunTargetsOfTheMakefileAndPinnedActions(t *testing.T) {
	t.Parallel()
	makefile := read(t, "Makefile")
	for _, path := range glob(t, ".github/workflows/*") {
		workflow := read(t, path)
		for _, used := range action.FindAllStringSubmatch(workflow, -1) {
			if !strings.HasPrefix(used[1], "./") {
				require.Regexp(t, `@[0-9a-f]{40}$`, used[1], path)
				require.Regexp(t, `^ # v\d+\.\d+\.\d+$`, used[2], used[1])
			}
		}
		commands := regexp.MustCompile(`run: make ([a-z -]+)`).FindAllStringSubmatch(workflow, -1)
		require.NotEmpty(t, commands)
		for _, command := range commands {
			for target := range strings.FieldsSeq(command[1]) {
				require.Contains(t, makefile, "\n"+target+":", path)
			}
		}
	}
	majors := regexp.MustCompile(`(?m)^(\d+) `).FindAllStringSubmatch(read(t, ".ci/postgres.sums"), -1)
	var versions []string
	for _, major := range majors {
		versions = append(versions, major[1])
	}
	require.Contains(t, read(t, ".github/workflows/ci.yml"), "postgres: ["+strings.Join(versions, ", ")+"]\n")
}
