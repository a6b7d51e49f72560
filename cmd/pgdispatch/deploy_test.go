package main

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// drainMargin is the time between the end of a replica's drain and its exit; docs/settings.md promises five seconds.
const drainMargin = 5 * time.Second

// foreign are the variables in deploy/ that belong to Temporal's SDK and Go.
var foreign = []string{"TEMPORAL_API_KEY", "TEMPORAL_TLS", "GOMEMLIMIT"}

// variablesOf returns the variables of options and the foreign variables.
func variablesOf(options []config.Option) []string {
	names := slices.Clone(foreign)
	for _, o := range options {
		names = append(names, o.Variable)
		if o.Secret() {
			names = append(names, o.Variable+"_FILE")
		}
	}
	return names
}

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
	text, err := os.ReadFile(filepath.Join("../../deploy", name))
	require.NoError(t, err)
	return string(text)
}

// requireCommand checks that a command line is valid, including its flags.
func requireCommand(t *testing.T, args []string) {
	t.Helper()
	command, rest, err := root().Find(args)
	require.NoError(t, err)
	require.NotNil(t, command.RunE, "%v is a group of commands", args)
	require.NoError(t, command.ParseFlags(rest))
	require.NoError(t, cobra.NoArgs(command, command.Flags().Args()), args)
}

// container holds the fields of a pod's container that the test checks.
type container struct {
	Args []string
	Env  []struct {
		Name, Value string
		ValueFrom   struct {
			SecretKeyRef struct{ Name, Key string } `yaml:"secretKeyRef"`
		} `yaml:"valueFrom"`
	}
	Ports []struct {
		Name          string
		ContainerPort int `yaml:"containerPort"`
	}
	Liveness        probe `yaml:"livenessProbe"`
	Readiness       probe `yaml:"readinessProbe"`
	SecurityContext struct {
		ReadOnly   bool `yaml:"readOnlyRootFilesystem"`
		Escalation bool `yaml:"allowPrivilegeEscalation"`
	} `yaml:"securityContext"`
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

// manifest holds the fields of Kubernetes' Deployment, Job and PodDisruptionBudget that the tests check.
type manifest struct {
	Kind string
	Spec struct {
		Replicas int
		Selector struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		}
		Template struct {
			Metadata struct{ Labels, Annotations map[string]string }
			Spec     struct {
				Grace           int `yaml:"terminationGracePeriodSeconds"`
				SecurityContext struct {
					NonRoot bool `yaml:"runAsNonRoot"`
				} `yaml:"securityContext"`
				Containers []container
			}
		}
	}
}

// kustomized reads the base: its manifests by kind, and the data of its ConfigMap.
func kustomized(t *testing.T) (map[string]manifest, map[string]string) {
	t.Helper()
	var base struct {
		Resources          []string
		ConfigMapGenerator []struct{ Literals []string } `yaml:"configMapGenerator"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(readDeploy(t, "kubernetes/kustomization.yaml")), &base))
	manifests, settings := map[string]manifest{}, map[string]string{}
	for _, name := range base.Resources {
		for decoder := yaml.NewDecoder(strings.NewReader(readDeploy(t, "kubernetes/"+name))); ; {
			var m manifest
			if err := decoder.Decode(&m); errors.Is(err, io.EOF) {
				break
			} else {
				require.NoError(t, err, name)
			}
			manifests[m.Kind] = m
		}
	}
	for _, literal := range base.ConfigMapGenerator[0].Literals {
		name, value, _ := strings.Cut(literal, "=")
		settings[name] = value
	}
	return manifests, settings
}

func TestKubernetesManifestsSayWhatTheBinaryUnderstands(t *testing.T) {
	t.Parallel()
	manifests, settings := kustomized(t)
	c, err := readRunConfig(settings)
	require.NoError(t, err)
	deployment, job := manifests["Deployment"].Spec, manifests["Job"].Spec
	require.Equal(t, deployment.Selector.MatchLabels, deployment.Template.Metadata.Labels)
	require.Equal(t, deployment.Selector.MatchLabels, manifests["PodDisruptionBudget"].Spec.Selector.MatchLabels)
	require.Greater(t, deployment.Replicas, 1, "one replica may be evicted")
	for _, pod := range []struct {
		containers []container
		options    []config.Option
	}{{deployment.Template.Spec.Containers, config.RunOptions}, {job.Template.Spec.Containers, config.DatabaseOptions}} {
		require.Len(t, pod.containers, 1)
		requireCommand(t, pod.containers[0].Args)
		for _, variable := range pod.containers[0].Env {
			require.Contains(t, variablesOf(pod.options), variable.Name)
			if variable.Name == "GOMEMLIMIT" { // depends on this container's limit
				continue
			}
			require.Empty(t, variable.Value, "%s is a secret, or belongs in the ConfigMap", variable.Name)
			require.Equal(t, variable.Name, variable.ValueFrom.SecretKeyRef.Key)
		}
		require.True(t, pod.containers[0].SecurityContext.ReadOnly && !pod.containers[0].SecurityContext.Escalation)
	}
	require.True(t, deployment.Template.Spec.SecurityContext.NonRoot && job.Template.Spec.SecurityContext.NonRoot)
	for name := range settings {
		require.Contains(t, variablesOf(config.RunOptions), name)
		require.NotContains(t, name, "ALLOW_INSECURE", "an overlay decides that")
	}
	require.Greater(t, time.Duration(deployment.Template.Spec.Grace)*time.Second, c.DrainTimeout+drainMargin)

	replica := deployment.Template.Spec.Containers[0]
	_, port, err := net.SplitHostPort(c.AdminAddr)
	require.NoError(t, err)
	require.Equal(t, port, strconv.Itoa(replica.Ports[0].ContainerPort))
	require.Equal(t, port, deployment.Template.Metadata.Annotations["prometheus.io/port"])
	require.Equal(t, []string{"/livez", "/readyz"},
		[]string{replica.Liveness.HTTPGet.Path, replica.Readiness.HTTPGet.Path})
	require.Equal(t, []string{replica.Ports[0].Name, replica.Ports[0].Name},
		[]string{replica.Liveness.HTTPGet.Port, replica.Readiness.HTTPGet.Port})
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
			require.Contains(t, variablesOf(config.RunOptions), name)
			settings[name] = strings.ReplaceAll(value, "%d", credentials) // systemd's directory of credentials
		case "LoadCredential":
			name, path, _ := strings.Cut(line[2], ":")
			require.NoError(t, os.WriteFile(filepath.Join(credentials, name), []byte(token+"\n"), 0o600))
			require.Contains(t, readPage(t, "docs/deploy.md"), "install -m 0600 /dev/stdin "+path,
				"the page documents the command")
		}
	}
	require.Contains(t, readPage(t, "docs/deploy.md"), "install -m 0600 /dev/stdin "+unit["EnvironmentFile"]+" <<")
	c, err := readRunConfig(settings)
	require.NoError(t, err)
	require.NotEmpty(t, c.AdminAddr)
	require.Equal(t, token, c.AdminToken)
	path, args, _ := strings.Cut(unit["ExecStart"], " ")
	require.Equal(t, "/usr/local/bin/pgdispatch", path)
	requireCommand(t, strings.Fields(args))
	patience, err := strconv.Atoi(unit["TimeoutStopSec"])
	require.NoError(t, err)
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
	module, err := os.ReadFile("../../go.mod")
	require.NoError(t, err)
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(module)
	require.Contains(t, file, "FROM --platform=$BUILDPLATFORM golang:"+string(version[1])+"-",
		"the image compiles on the builder's platform")
	require.Contains(t, file,
		"\nARG TARGETOS\nARG TARGETARCH\nRUN GOOS=$TARGETOS GOARCH=$TARGETARCH make build VERSION=$VERSION\n")
	require.Contains(t, file, "\nUSER 65532:65532\n")
	command := regexp.MustCompile(`(?m)^CMD \["(.*)"\]$`).FindStringSubmatch(file)
	require.NotNil(t, command)
	requireCommand(t, strings.Split(command[1], `", "`))
	_, settings := kustomized(t)
	require.Contains(t, file, "\nEXPOSE "+strings.TrimPrefix(settings["PGDISPATCH_ADMIN_ADDR"], ":")+"\n")
	makefile, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	require.True(t, bytes.Contains(makefile, []byte("\nOUT         := bin/pgdispatch\n")),
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
		if *update {
			require.NoError(t, os.WriteFile(filepath.Join("../../deploy", name), []byte(want), 0o644))
		}
		require.Equal(t, want, readDeploy(t, name), "go test ./cmd/pgdispatch -run Page -update rewrites it")
	}
}

var exampleURL = regexp.MustCompile(`postgres://[^\s'"]+`)

// Samples that people copy must work unchanged, and not need PGDISPATCH_ALLOW_INSECURE_DATABASE.
func TestDeployPagesExamplesConnectByVerifiedTLS(t *testing.T) {
	t.Parallel()
	authority := newAuthority(t).path("ca.pem")
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

func TestPagesOfUpgradeAndRecoveryNameTestsThatExist(t *testing.T) {
	t.Parallel()
	for page, file := range map[string]string{"docs/upgrade.md": "upgrade_test.go",
		"docs/recovery.md": "restore_test.go"} {
		named := regexp.MustCompile("`(Test\\w+)`").FindStringSubmatch(readPage(t, page))
		require.NotNil(t, named, page)
		require.Contains(t, readPage(t, "cmd/pgdispatch/"+file), "\nfunc "+named[1]+"(t *testing.T)")
	}
}
