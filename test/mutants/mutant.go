package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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

// edit replaces text that occurs exactly once in a place: a file's path, or a section of an SQL file as "sql function
// claim_pick", "sql name release" or "sql part parked". Short anchors last longest.
type edit struct{ place, old, new string }

// places returns the mutant's places, each once.
func (m mutant) places() []string {
	var places []string
	for _, e := range m.edits {
		if !slices.Contains(places, e.place) {
			places = append(places, e.place)
		}
	}
	return places
}

// mutated returns the changed text of the mutant's files. It returns an error if a guard has moved: then the mutant is
// stale.
func (m mutant) mutated(root string) (map[string]string, error) {
	texts := source{root: root, changed: map[string]string{}}
	for _, e := range m.edits {
		file, part, err := texts.find(e.place)
		if err != nil {
			return nil, fmt.Errorf("mutant %q: %w", m.name, err)
		}
		if n := strings.Count(part, e.old); n != 1 {
			return nil, fmt.Errorf("mutant %q is stale: %s has %d times %q, want once: point it at the guard as it is now",
				m.name, e.place, n, e.old)
		}
		text, err := texts.read(file)
		if err != nil {
			return nil, fmt.Errorf("mutant %q: %w", m.name, err)
		}
		texts.changed[file] = strings.Replace(text, part, strings.Replace(part, e.old, e.new, 1), 1)
	}
	return texts.changed, nil
}

// source is the repository with changed files.
type source struct {
	root    string
	changed map[string]string
}

func (s source) read(file string) (string, error) {
	if text, found := s.changed[file]; found {
		return text, nil
	}
	text, err := os.ReadFile(filepath.Join(s.root, file))
	if err != nil {
		return "", fmt.Errorf("read the guard's file: %w", err)
	}
	return string(text), nil
}

// sectionEnds is what follows a section of an SQL file, or a template that one defines.
var sectionEnds = regexp.MustCompile(`\n(-- (name|function): |\{\{- /\*)`)

// find returns the file of a place, and the text of the place.
func (s source) find(place string) (file, text string, err error) {
	section, found := strings.CutPrefix(place, "sql ")
	if !found {
		text, err = s.read(place)
		return place, text, err
	}
	kind, name, _ := strings.Cut(section, " ")
	begin := "-- " + kind + ": " + name + "\n"
	if kind == "part" {
		begin = `{{ define "` + name + `" -}}` + "\n"
	}
	files, err := filepath.Glob(filepath.Join(s.root, "sql/*/*.sql"))
	if err != nil {
		return "", "", fmt.Errorf("list SQL files: %w", err)
	}
	for _, path := range files {
		file, err := filepath.Rel(s.root, path)
		if err != nil {
			return "", "", fmt.Errorf("list SQL files: %w", err)
		}
		if text, err = s.read(file); err != nil {
			return "", "", err
		}
		if _, text, found = strings.Cut("\n"+text, "\n"+begin); found {
			if end := sectionEnds.FindStringIndex(text); end != nil {
				text = text[:end[0]]
			}
			return file, text, nil
		}
	}
	return "", "", fmt.Errorf("no SQL file has the section %q", place)
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
