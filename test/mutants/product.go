package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// product is the product's source by place, so that a mutant finds its guard wherever the guard's file is. A place is
//   - a declaration in Go, such as "dispatch.breaker.allows": the package's name, the method's type, and the name;
//   - a section of an SQL file: "sql function claim_pick", "sql name release" or "sql part parked";
//   - any other file's path.
type product struct {
	root     string
	sections map[string][]section // by place, except paths
}

// section is a part of a file.
type section struct{ file, text string }

// foreign are directories without code of the product.
var foreign = []string{".git", ".cache", "bin", "cmd/devstack", "docs", "test", "testdata"}

// open reads the product in a repository.
func open(root string) (*product, error) {
	p := &product{root: root, sections: map[string][]section{}}
	err := fs.WalkDir(os.DirFS(root), ".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(foreign, file):
			return fs.SkipDir
		case strings.HasSuffix(file, ".sql"):
			return p.addSQL(file)
		case strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go"):
			return p.addGo(file)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the product: %w", err)
	}
	return p, nil
}

func (p *product) read(file string) (string, error) {
	text, err := os.ReadFile(filepath.Join(p.root, file))
	if err != nil {
		return "", fmt.Errorf("read a guard's file: %w", err)
	}
	return string(text), nil
}

// sectionBegin begins a section of an SQL file or a template that one defines. sectionEnd ends it.
var (
	sectionBegin = regexp.MustCompile(`(?m)^(?:-- (name|function): (\w+)|\{\{ define "(\w+)" -\}\})\n`)
	sectionEnd   = regexp.MustCompile(`\n(-- (name|function): |\{\{- /\*)`)
)

func (p *product) addSQL(file string) error {
	text, err := p.read(file)
	if err != nil {
		return err
	}
	for _, match := range sectionBegin.FindAllStringSubmatchIndex(text, -1) {
		place := "sql part "
		if match[2] >= 0 {
			place = "sql " + text[match[2]:match[3]] + " " + text[match[4]:match[5]]
		} else {
			place += text[match[6]:match[7]]
		}
		body := text[match[1]:]
		if end := sectionEnd.FindStringIndex(body); end != nil {
			body = body[:end[0]]
		}
		p.sections[place] = append(p.sections[place], section{file, body})
	}
	return nil
}

func (p *product) addGo(file string) error {
	text, err := p.read(file)
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, declaration := range parsed.Decls {
		body := section{file, text[set.Position(declaration.Pos()).Offset:set.Position(declaration.End()).Offset]}
		for _, name := range names(declaration) {
			place := parsed.Name.Name + "." + name
			p.sections[place] = append(p.sections[place], body)
		}
	}
	return nil
}

// names returns what a declaration declares, a method with its type.
func names(declaration ast.Decl) []string {
	function, isFunction := declaration.(*ast.FuncDecl)
	switch {
	case isFunction && function.Recv == nil:
		return []string{function.Name.Name}
	case isFunction:
		receiver := function.Recv.List[0].Type
		for {
			switch t := receiver.(type) {
			case *ast.StarExpr:
				receiver = t.X
			case *ast.IndexExpr:
				receiver = t.X
			case *ast.Ident:
				return []string{t.Name + "." + function.Name.Name}
			default:
				return nil
			}
		}
	}
	var all []string
	for _, spec := range declaration.(*ast.GenDecl).Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			all = append(all, s.Name.Name)
		case *ast.ValueSpec:
			for _, name := range s.Names {
				all = append(all, name.Name)
			}
		}
	}
	return all
}

// find returns the section of a place, or the whole file if the place is a path.
func (p *product) find(place string) (section, error) {
	if strings.Contains(place, "/") {
		text, err := p.read(place)
		return section{place, text}, err
	}
	switch found := p.sections[place]; len(found) {
	case 0:
		return section{}, fmt.Errorf("there is no %s", place)
	case 1:
		return found[0], nil
	default:
		return section{}, fmt.Errorf("%s and %s both have %s", found[0].file, found[1].file, place)
	}
}

// remedy says what to do about an edit that does not apply: which places have its text, if any.
func (p *product) remedy(e edit) string {
	var have []string
	for _, place := range slices.Sorted(maps.Keys(p.sections)) {
		for _, s := range p.sections[place] {
			if place != e.place && len(e.pattern().FindAllStringIndex(s.text, -1)) == 1 {
				have = append(have, place)
			}
		}
	}
	if len(have) == 0 {
		return ", nor does another place: quote the guard as it is now, or remove the mutant with its guard"
	}
	return fmt.Sprintf(": name the place of the guard, if it is in %s", strings.Join(have, " or "))
}
