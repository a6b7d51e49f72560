package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

var file = flag.String("sbom", "", "a file to hold against the schema, instead of the list of a made-up binary")

// schemaOf compiles CycloneDX's own schema, which comes with its library for Go.
func schemaOf(t *testing.T) *jsonschema.Schema {
	t.Helper()
	const site = "http://cyclonedx.org/schema/"
	directory, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	for url, name := range map[string]string{
		"bom-1.6.schema.json": "bom-1.6.schema.json", "spdx.schema.json": "spdx.schema.json", "jsf-0.82.schema.json": "jsf-0.82.schemax.json",
	} {
		text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(directory)), "schema", name))
		require.NoError(t, err)
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		require.NoError(t, err)
		require.NoError(t, compiler.AddResource(site+url, document))
	}
	schema, err := compiler.Compile(site + "bom-1.6.schema.json")
	require.NoError(t, err)
	return schema
}

func validate(t *testing.T, schema *jsonschema.Schema, text []byte) error {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	return schema.Validate(document)
}

func TestTheListIsWhatTheSchemaOfCycloneDXAsks(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(list(built))
	if *file != "" {
		text, err = os.ReadFile(*file)
	}
	require.NoError(t, err)
	schema := schemaOf(t)
	require.NoError(t, validate(t, schema, text))
	require.Error(t, validate(t, schema, bytes.Replace(text, []byte(`"library"`), []byte(`"book"`), 1)), "it would say so")

	var bom cyclonedx.BOM
	require.NoError(t, cyclonedx.NewBOMDecoder(bytes.NewReader(text), cyclonedx.BOMFileFormatJSON).Decode(&bom))
	require.GreaterOrEqual(t, len(*bom.Components), 3)
}
