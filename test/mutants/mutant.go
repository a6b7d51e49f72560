package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is the product without one guard.
type mutant struct {
	// name names the guard. It is unique.
	name string
	// instead says what happens without the guard.
	instead string
	edits   []edit
	// pkg is a package and test is its test that must fail.
	pkg, test string
}

// edit replaces text that occurs exactly once in a file. Short anchors last longest.
type edit struct{ file, old, new string }

// files returns the mutant's files, each once.
func (m mutant) files() []string {
	var files []string
	for _, e := range m.edits {
		if !slices.Contains(files, e.file) {
			files = append(files, e.file)
		}
	}
	return files
}

// mutated returns the changed text of the mutant's files. It returns an error if a guard has moved: then the mutant is
// stale.
func (m mutant) mutated(root string) (map[string]string, error) {
	texts := map[string]string{}
	for _, e := range m.edits {
		text, read := texts[e.file]
		if !read {
			bytes, err := os.ReadFile(filepath.Join(root, e.file))
			if err != nil {
				return nil, fmt.Errorf("mutant %q: read the guard's file: %w", m.name, err)
			}
			text = string(bytes)
		}
		if n := strings.Count(text, e.old); n != 1 {
			return nil, fmt.Errorf("mutant %q is stale: %s has %d times %q, want once: point it at the guard as it is now",
				m.name, e.file, n, e.old)
		}
		texts[e.file] = strings.Replace(text, e.old, e.new, 1)
	}
	return texts, nil
}

// overlay writes the changed files to a directory, with the list of them that go's -overlay flag reads, and returns the
// list's path.
func (m mutant) overlay(root, directory string) (string, error) {
	texts, err := m.mutated(root)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for file, text := range texts {
		path := filepath.Join(directory, fmt.Sprintf("%d-%s", len(replace), filepath.Base(file)))
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return "", fmt.Errorf("write a mutated file: %w", err)
		}
		replace[filepath.Join(root, file)] = path
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("write the overlay: %w", err)
	}
	path := filepath.Join(directory, "overlay.json")
	if err := os.WriteFile(path, list, 0o644); err != nil {
		return "", fmt.Errorf("write the overlay: %w", err)
	}
	return path, nil
}
