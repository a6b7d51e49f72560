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

// edit replaces text that occurs exactly once in a place. A blank in it stands for any white space. The shortest text
// that is clear lasts longest.
type edit struct{ place, old, new string }

func (e edit) pattern() *regexp.Regexp {
	return regexp.MustCompile(strings.ReplaceAll(regexp.QuoteMeta(e.old), " ", `\s+`))
}

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

// mutated returns the changed text of the mutant's files. It returns an error if a guard is no longer where the mutant
// looks for it: then the mutant is stale.
func (m mutant) mutated(p *product) (map[string]string, error) {
	changed := map[string]string{} // by place
	for _, e := range m.edits {
		text, found := changed[e.place]
		if !found {
			at, err := p.find(e.place)
			if err != nil {
				return nil, fmt.Errorf("mutant %q is stale: %w%s", m.name, err, p.remedy(e))
			}
			text = at.text
		}
		matches := e.pattern().FindAllStringIndex(text, -1)
		switch len(matches) {
		case 0:
			return nil, fmt.Errorf("mutant %q is stale: %s no longer has %q%s", m.name, e.place, e.old, p.remedy(e))
		case 1:
		default:
			return nil, fmt.Errorf("mutant %q is stale: %s has %q %d times: quote more of the guard", m.name, e.place, e.old,
				len(matches))
		}
		changed[e.place] = text[:matches[0][0]] + e.new + text[matches[0][1]:]
	}
	files := map[string]string{}
	for _, name := range m.places() {
		at, err := p.find(name)
		if err != nil {
			return nil, err
		}
		if _, read := files[at.file]; !read {
			if files[at.file], err = p.read(at.file); err != nil {
				return nil, err
			}
		}
		files[at.file] = strings.Replace(files[at.file], at.text, changed[name], 1)
	}
	return files, nil
}

// overlay writes changed files to a directory, with the list of them that go's -overlay flag reads, and returns the
// list's path.
func (p *product) overlay(texts map[string]string, directory string) (string, error) {
	replace := map[string]string{}
	for file, text := range texts {
		path := filepath.Join(directory, fmt.Sprintf("%d-%s", len(replace), filepath.Base(file)))
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return "", fmt.Errorf("write a mutated file: %w", err)
		}
		replace[filepath.Join(p.root, file)] = path
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
