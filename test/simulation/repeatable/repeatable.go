// Package repeatable builds and runs test programs in which the same seed gives the same run: on any machine, next to
// any load, and after any other run of the same process.
//
// A bubble of testing/synctest has its own clock, but Go still chooses by itself which ready case a select takes, in
// which order maps are read and timers of one instant fire, and when a goroutine is interrupted. The package compiles
// the program against a copy of a few files of the standard library, with go build -overlay, in which these choices
// follow from a seed. The installed Go stays as it is. The program calls runtime.SimulateFrom, which only exists with
// the build tag "repeatable".
package repeatable

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// ErrUnknownGo means that the installed Go has other texts than those that edits know. Programs built without the edits
// work, but their runs cannot be repeated.
var ErrUnknownGo = errors.New("edits.go does not fit this version of Go")

// Tag is the build tag of files that call runtime.SimulateFrom.
const Tag = "repeatable"

// Build compiles the test program of the package in a directory to a file. It takes a minute or two at first, because
// everything is compiled against the edited library, and seconds later. An overlay in GOFLAGS holds here, too.
func Build(ctx context.Context, directory, program string) error {
	source, flags, err := environment(ctx, directory)
	if err != nil {
		return err
	}
	replace, err := edited(source, edits)
	if err != nil {
		return err
	}
	overlay, err := writeOverlay(replace, flags)
	if err != nil {
		return fmt.Errorf("write the edited library: %w", err)
	}

	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-tags", Tag, "-overlay", overlay, "-o", program, ".")
	cmd.Dir = directory
	cmd.Env = append(os.Environ(), "GOFLAGS="+withoutOverlay(flags))
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s with the edited library: %w\n%s", directory, err, output)
	}
	return nil
}

// Command returns a command that runs a program that Build has built.
func Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=off", "GODEBUG=asyncpreemptoff=1")
	return cmd
}

// environment returns where Go's library is, and GOFLAGS.
func environment(ctx context.Context, directory string) (source, flags string, err error) {
	cmd := exec.CommandContext(ctx, "go", "env", "GOROOT", "GOFLAGS")
	cmd.Dir = directory
	out, err := cmd.Output()
	if err != nil {
		return "", "", fmt.Errorf("ask go for its environment: %w", err)
	}
	root, flags, _ := strings.Cut(string(out), "\n")
	return filepath.Join(root, "src"), strings.TrimSpace(flags), nil
}

// edited returns the edited texts of the library's files, by path.
func edited(source string, edits []edit) (map[string]string, error) {
	texts := map[string]string{}
	for _, e := range edits {
		path := filepath.Join(source, e.file)
		if _, read := texts[path]; !read {
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrUnknownGo, err)
			}
			texts[path] = string(text)
		}
		if found, times := strings.Count(texts[path], e.old), max(e.times, 1); found != times {
			return nil, fmt.Errorf("%w: %s has %q %d times instead of %d", ErrUnknownGo, e.file, e.old, found, times)
		}
		texts[path] = strings.ReplaceAll(texts[path], e.old, e.new)
	}
	return texts, nil
}

// overlay is the file that go build -overlay reads.
type overlay struct{ Replace map[string]string }

// writeOverlay writes texts below the user's cache, in a directory named after what it contains, together with the
// overlay that GOFLAGS names. It returns the path of the overlay.
func writeOverlay(texts map[string]string, flags string) (string, error) {
	all := overlay{map[string]string{}}
	if path := overlayOf(flags); path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		if err := json.Unmarshal(text, &all); err != nil {
			return "", fmt.Errorf("read %s: %w", path, err)
		}
	}

	sum := sha256.New()
	for _, path := range slices.Sorted(maps.Keys(texts)) {
		fmt.Fprintf(sum, "%s\n%s\n", path, texts[path])
	}
	for _, path := range slices.Sorted(maps.Keys(all.Replace)) {
		fmt.Fprintf(sum, "%s %s\n", path, all.Replace[path])
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	directory := filepath.Join(cache, "pgdispatch-simulation", hex.EncodeToString(sum.Sum(nil)[:8]))
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return "", err
	}

	for path, text := range texts {
		name := strings.ReplaceAll(strings.TrimPrefix(path, "/"), string(filepath.Separator), "_")
		all.Replace[path] = filepath.Join(directory, name)
		if err := writeWhole(all.Replace[path], []byte(text)); err != nil {
			return "", err
		}
	}
	text, err := json.MarshalIndent(all, "", "\t")
	if err != nil {
		return "", err
	}
	list := filepath.Join(directory, "overlay.json")
	return list, writeWhole(list, text)
}

// writeWhole writes a file that another process may be reading: it sees the old text or the new one. A file that has
// the text already keeps its time, so that go need not hash it again.
func writeWhole(path string, text []byte) error {
	if old, err := os.ReadFile(path); err == nil && string(old) == string(text) {
		return nil
	}
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	if _, err = file.Write(text); err == nil {
		err = file.Close()
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	return err
}

// overlayOf returns the overlay that GOFLAGS names, or nothing.
func overlayOf(flags string) (path string) {
	for _, flag := range strings.Fields(flags) {
		if name, value, _ := strings.Cut(strings.TrimLeft(flag, "-"), "="); name == "overlay" {
			path = value
		}
	}
	return path
}

// withoutOverlay returns GOFLAGS without its overlays, which writeOverlay has read.
func withoutOverlay(flags string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(flags), func(flag string) bool {
		return strings.HasPrefix(strings.TrimLeft(flag, "-"), "overlay=")
	}), " ")
}
