package main

import (
	"encoding/json"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// built is what a linker notes.
var built = &debug.BuildInfo{
	GoVersion: "go1.26.8",
	Main:      debug.Module{Path: "example.org/own", Version: "v1.2.3"},
	Deps: []*debug.Module{
		{Path: "example.org/plain", Version: "v1.0.0", Sum: "h1:AAEC"},
		{Path: "example.org/old", Version: "v0.1.0", Replace: &debug.Module{Path: "example.org/fork", Version: "v0.1.1"}},
	},
	Settings: []debug.BuildSetting{{Key: "CGO_ENABLED", Value: "0"}},
}

func TestTheListHasTheBinaryTheStandardLibraryAndEachModuleAsItWasBuilt(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(list(built))
	require.NoError(t, err)
	require.JSONEq(t, `{"$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json", "bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata": {"component": {"type": "application", "bom-ref": "pkg:golang/example.org/own@v1.2.3", "name": "example.org/own", "version": "v1.2.3",
			"purl": "pkg:golang/example.org/own@v1.2.3", "properties": [{"name": "go:CGO_ENABLED", "value": "0"}]}},
		"components": [
			{"type": "library", "bom-ref": "pkg:golang/std@1.26.8", "name": "std", "version": "1.26.8", "purl": "pkg:golang/std@1.26.8"},
			{"type": "library", "bom-ref": "pkg:golang/example.org/plain@v1.0.0", "name": "example.org/plain", "version": "v1.0.0",
				"purl": "pkg:golang/example.org/plain@v1.0.0", "properties": [{"name": "go:sum:h1", "value": "000102"}]},
			{"type": "library", "bom-ref": "pkg:golang/example.org/fork@v0.1.1", "name": "example.org/fork", "version": "v0.1.1",
				"purl": "pkg:golang/example.org/fork@v0.1.1"}]}`, string(text))
}
