// Command sbom writes what a Go binary was built from, as the linker noted it in the binary itself, in CycloneDX's format.
package main

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
)

// The parts of CycloneDX 1.6 that there is something to say for.
type (
	document struct {
		Schema      string      `json:"$schema"`
		Format      string      `json:"bomFormat"`
		SpecVersion string      `json:"specVersion"`
		Version     int         `json:"version"`
		Metadata    metadata    `json:"metadata"`
		Components  []component `json:"components"`
	}
	metadata struct {
		Component component `json:"component"`
	}
	component struct {
		Type       string     `json:"type"`
		Ref        string     `json:"bom-ref"`
		Name       string     `json:"name"`
		Version    string     `json:"version"`
		Purl       string     `json:"purl"`
		Properties []property `json:"properties,omitempty"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sbom BINARY VERSION > FILE")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// write takes the binary's version from its caller: the linker notes the modules', and of what it was told of this one nothing.
func write(binary, version string) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("read build information: %w", err)
	}
	info.Main.Version = version
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(list(info))
}

// list names the binary, the standard library and each module that is in it. It has no time and no serial number, so that the same
// binary has the same list.
func list(info *debug.BuildInfo) document {
	main := module("application", &info.Main)
	for _, setting := range info.Settings {
		main.Properties = append(main.Properties, property{"go:" + setting.Key, setting.Value})
	}
	std := strings.TrimPrefix(info.GoVersion, "go")
	all := []component{module("library", &debug.Module{Path: "std", Version: std})}
	for _, dependency := range info.Deps {
		if dependency.Replace != nil {
			dependency = dependency.Replace
		}
		all = append(all, module("library", dependency))
	}
	return document{
		Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", SpecVersion: "1.6", Version: 1,
		Metadata: metadata{main}, Components: all,
	}
}

func module(kind string, m *debug.Module) component {
	purl := "pkg:golang/" + m.Path + "@" + m.Version
	c := component{Type: kind, Ref: purl, Name: m.Path, Version: m.Version, Purl: purl}
	// go.sum's hash is of a module's files and not of an archive, so it is none of CycloneDX's hashes.
	if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) > 0 {
		c.Properties = []property{{"go:sum:h1", hex.EncodeToString(sum)}}
	}
	return c
}
