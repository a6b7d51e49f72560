package deploy_test

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	core "k8s.io/api/core/v1"

	"github.com/pgdispatch/pgdispatch/internal/config"
	"github.com/pgdispatch/pgdispatch/internal/must"
)

const deployPage = "../../docs/deploy.md"

var unitLine = regexp.MustCompile(`(?m)^([A-Za-z]+)=(.*)$`)

func TestSystemdUnitSaysWhatTheBinaryUnderstands(t *testing.T) {
	t.Parallel()
	const token = "correct-horse-battery"
	page := string(must.Get(os.ReadFile(deployPage)).In(t))
	file := must.Get(os.ReadFile("../../deploy/systemd/pgdispatch.service")).In(t)
	unit, environment, credentials := map[string]string{}, core.Container{}, t.TempDir()
	for _, line := range unitLine.FindAllStringSubmatch(string(file), -1) {
		unit[line[1]] = line[2]
		switch line[1] {
		case "Environment":
			name, value, _ := strings.Cut(line[2], "=")
			value = strings.ReplaceAll(value, "%d", credentials) // systemd's directory of credentials
			environment.Env = append(environment.Env, core.EnvVar{Name: name, Value: value})
		case "LoadCredential":
			name, path, _ := strings.Cut(line[2], ":")
			require.NoError(t, os.WriteFile(filepath.Join(credentials, name), []byte(token+"\n"), 0o600))
			require.Contains(t, page, "install -m 0600 /dev/stdin "+path, "the page documents the command")
		}
	}
	require.Contains(t, page, "install -m 0600 /dev/stdin "+unit["EnvironmentFile"]+" <<")
	values, _ := variables(t, environment, config.RunOptions)
	c := settings(t, values)
	require.NotEmpty(t, c.AdminAddr)
	require.Equal(t, token, c.AdminToken)
	require.Equal(t, "/usr/local/bin/pgdispatch run", unit["ExecStart"])
	patience := must.Get(strconv.Atoi(unit["TimeoutStopSec"])).In(t)
	require.Greater(t, time.Duration(patience)*time.Second, c.DrainTimeout+drainMargin)
	for name, want := range map[string]string{"DynamicUser": "yes", "ProtectSystem": "strict", "NoNewPrivileges": "yes",
		"Restart": "always", "CapabilityBoundingSet": "", "MemoryMax": "512M"} {
		require.Equal(t, want, unit[name], name)
	}
	require.Equal(t, "460MiB", values["GOMEMLIMIT"], "a tenth below MemoryMax")
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
	urls := exampleURL.FindAllString(string(must.Get(os.ReadFile(deployPage)).In(t)), -1)
	require.NotEmpty(t, urls)
	mounted := 0
	for _, url := range urls {
		if strings.Contains(url, "/etc/pgdispatch/ca/postgres.crt") { // where the manifests mount the ConfigMap pgdispatch-ca
			mounted++
			url = strings.ReplaceAll(url, "/etc/pgdispatch/ca/postgres.crt", authority)
		}
		c := settings(t, map[string]string{"DATABASE_URL": url})
		require.NoError(t, c.Database.Verify(), url)
	}
	require.Positive(t, mounted)
}

// The example names every Option with its default, and sets none.
func TestTheExampleFileIsTrue(t *testing.T) {
	t.Parallel()
	const path = "../../deploy/pgdispatch.yaml"
	require.Equal(t, settings(t, nil), settings(t, map[string]string{"PGDISPATCH_CONFIG": path}))
	example := must.Get(os.ReadFile(path)).In(t)
	active := regexp.MustCompile(`(?m)^# ([a-z_]+: \S+)$`).ReplaceAllString(string(example), "$1")
	all := filepath.Join(t.TempDir(), "active.yaml")
	require.NoError(t, os.WriteFile(all, []byte(active), 0o600))
	settings(t, map[string]string{"PGDISPATCH_CONFIG": all})
	for _, o := range config.RunOptions {
		line := "\n" + strings.ReplaceAll(o.Flag, "-", "_") + ": "
		require.Contains(t, active, line)
		if o.Default != "" {
			require.Contains(t, active, line+o.Default+"\n")
		}
	}
}
