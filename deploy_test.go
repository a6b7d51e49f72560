package pgdispatch_test

import (
	"bytes"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/goldentest"
	"github.com/pgdispatch/pgdispatch/internal/must"
)

// drainMargin is the time between the end of a replica's drain and its exit; docs/settings.md promises five seconds.
const drainMargin = 5 * time.Second

// readRunConfig reads the configuration of `run` from variables.
func readRunConfig(variables map[string]string) (config.Config, error) {
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	config.AddFlags(flags, config.RunOptions)
	return config.Read(flags, func(name string) (string, bool) {
		value, ok := variables[name]
		return value, ok
	}, config.RunOptions)
}

func readDeploy(t *testing.T, name string) string {
	t.Helper()
	return string(must.Get(os.ReadFile(filepath.Join("deploy", name))).In(t))
}

// requireKnown checks that a replica reads a variable: it is a setting, the file of a secret, Temporal's or Go's.
func requireKnown(t *testing.T, variable string) {
	t.Helper()
	require.True(t, variable == "GOMEMLIMIT" || variable == "TEMPORAL_API_KEY" || variable == "TEMPORAL_TLS" ||
		slices.ContainsFunc(config.RunOptions, func(o config.Option) bool {
			return o.Variable == variable || o.Secret() && o.Variable+"_FILE" == variable
		}), variable)
}

var unitLine = regexp.MustCompile(`(?m)^([A-Za-z]+)=(.*)$`)

func TestSystemdUnitSaysWhatTheBinaryUnderstands(t *testing.T) {
	t.Parallel()
	const token = "correct-horse-battery"
	unit, settings, credentials := map[string]string{}, map[string]string{}, t.TempDir()
	for _, line := range unitLine.FindAllStringSubmatch(readDeploy(t, "systemd/pgdispatch.service"), -1) {
		unit[line[1]] = line[2]
		switch line[1] {
		case "Environment":
			name, value, _ := strings.Cut(line[2], "=")
			requireKnown(t, name)
			settings[name] = strings.ReplaceAll(value, "%d", credentials) // systemd's directory of credentials
		case "LoadCredential":
			name, path, _ := strings.Cut(line[2], ":")
			require.NoError(t, os.WriteFile(filepath.Join(credentials, name), []byte(token+"\n"), 0o600))
			require.Contains(t, readPage(t, "docs/deploy.md"), "install -m 0600 /dev/stdin "+path,
				"the page documents the command")
		}
	}
	require.Contains(t, readPage(t, "docs/deploy.md"), "install -m 0600 /dev/stdin "+unit["EnvironmentFile"]+" <<")
	c := must.Get(readRunConfig(settings)).In(t)
	require.NotEmpty(t, c.AdminAddr)
	require.Equal(t, token, c.AdminToken)
	require.Equal(t, "/usr/local/bin/pgdispatch run", unit["ExecStart"])
	patience := must.Get(strconv.Atoi(unit["TimeoutStopSec"])).In(t)
	require.Greater(t, time.Duration(patience)*time.Second, c.DrainTimeout+drainMargin)
	for name, want := range map[string]string{"DynamicUser": "yes", "ProtectSystem": "strict", "NoNewPrivileges": "yes",
		"Restart": "always", "CapabilityBoundingSet": "", "MemoryMax": "512M"} {
		require.Equal(t, want, unit[name], name)
	}
	require.Equal(t, "460MiB", settings["GOMEMLIMIT"], "a tenth below MemoryMax")
}

func TestContainerFileBuildsWithTheModulesGoAndRunsAReplica(t *testing.T) {
	t.Parallel()
	file := readDeploy(t, "container/Dockerfile")
	module := must.Get(os.ReadFile("go.mod")).In(t)
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(module)
	require.Contains(t, file, "FROM --platform=$BUILDPLATFORM golang:"+string(version[1])+"-",
		"the image compiles on the builder's platform")
	require.Contains(t, file,
		"\nARG TARGETOS\nARG TARGETARCH\nRUN GOOS=$TARGETOS GOARCH=$TARGETARCH make build VERSION=$VERSION\n")
	require.Contains(t, file, "\nUSER 65532:65532\n")
	require.Contains(t, file, "\nCMD [\"run\"]\n")
	require.Contains(t, file, "\nEXPOSE 9464\n", "the port of deploy/kubernetes")
	require.True(t, bytes.Contains(must.Get(os.ReadFile("Makefile")).In(t), []byte("\nOUT         := bin/pgdispatch\n")),
		"make build writes the file that the container copies")
}

// generatedAlerts are the copies of the alerts that promtool tests.
func generatedAlerts(t *testing.T) map[string]string {
	t.Helper()
	text := readDeploy(t, "prometheus/alerts.yml")
	_, groups, found := strings.Cut(text, "\ngroups:\n")
	require.True(t, found)
	var rule strings.Builder
	rule.WriteString("# Generated from deploy/prometheus/alerts.yml: make golden\napiVersion: " +
		"monitoring.coreos.com/v1\nkind: PrometheusRule\n" +
		"metadata:\n  name: pgdispatch\n  labels: {app.kubernetes.io/name: pgdispatch}\nspec:\n  groups:\n")
	for line := range strings.Lines(groups) {
		rule.WriteString("  " + line)
	}
	return map[string]string{
		"kubernetes/monitoring/prometheusrule.yaml": rule.String(),
		"helm/pgdispatch/files/alerts.yml": "# Generated from deploy/prometheus/alerts.yml: make golden\ngroups:\n" +
			groups,
	}
}

// make golden runs this with -update, like every test with "Page" in its name.
func TestOperatorsRulePagesForTheSameAlerts(t *testing.T) {
	t.Parallel()
	for name, want := range generatedAlerts(t) {
		goldentest.Require(t, "deploy/"+name, want)
	}
}

var exampleURL = regexp.MustCompile(`postgres://[^\s'"]+`)

// Samples that people copy must work unchanged, and not need PGDISPATCH_ALLOW_INSECURE_DATABASE.
func TestDeployPagesExamplesConnectByVerifiedTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(nil)
	server.Close()
	authority := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(authority,
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	urls := exampleURL.FindAllString(readPage(t, "docs/deploy.md"), -1)
	require.NotEmpty(t, urls)
	mounted := 0
	for _, url := range urls {
		if strings.Contains(url, "/etc/pgdispatch/ca/postgres.crt") { // where the manifests mount the ConfigMap pgdispatch-ca
			mounted++
			url = strings.ReplaceAll(url, "/etc/pgdispatch/ca/postgres.crt", authority)
		}
		c, err := readRunConfig(map[string]string{"DATABASE_URL": url})
		require.NoError(t, err, url)
		require.NoError(t, c.Database.Verify(), url)
	}
	require.Positive(t, mounted)
}

func TestThePageOfFaultsNamesTestsOfUpgradeAndRecoveryThatExist(t *testing.T) {
	t.Parallel()
	page := readPage(t, "docs/contributing/faults.md")
	for link, file := range map[string]string{"../upgrade.md": "upgrade_test.go", "../recovery.md": "restore_test.go"} {
		named := regexp.MustCompile("`(Test\\w+)` checks\\s+[^`]*" + regexp.QuoteMeta(link)).FindStringSubmatch(page)
		require.NotNil(t, named, link)
		require.Contains(t, readPage(t, "test/e2e/"+file), "\nfunc "+named[1]+"(t *testing.T)")
	}
}

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
