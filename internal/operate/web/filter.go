package web

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

// Filters are URL parameters. Users type them as `name:value` tokens in one line.

const (
	// typedParameter is the parameter of a typed line. A redirect replaces it by the parameters of its tokens.
	typedParameter = "filter"
	// maxTyped is the maximum length of a typed line in bytes.
	maxTyped = 2000
)

var (
	letterFilters = []string{"workspace", "definition", "error", "since", "until"}
	itemFilters   = append([]string{"status", "key", "priority", "params"}, letterFilters...)
	// suggestedAges are suggested for since and until.
	suggestedAges = []string{"15m", "1h", "24h", "168h"}
)

// filterBar is the form of a filter.
type filterBar struct {
	Path     string   // of the list
	Names    []string // of the tokens
	Happened string   // what since and until refer to, after "it"
	More     bool     // whether Names are those of items
	Tokens   []token  // in force
	// Query has the filter in force as URL parameters. Typed is a line that was refused, and Wrong says why.
	Query, Typed, Wrong string
}

// token is a filter in force, with the URL of the list without it.
type token struct{ Name, Value, Without string }

func itemBar() filterBar {
	return filterBar{Path: Prefix + "items", Names: itemFilters, Happened: "was enqueued", More: true}
}

func letterBar() filterBar {
	return filterBar{Path: Prefix + "dead/letters", Names: letterFilters, Happened: "failed"}
}

// moved redirects to a URL.
type moved string

func (m moved) Error() string { return "moved to " + string(m) }

// filtered serves a list. It redirects a typed line to the URL that has its tokens as parameters. If the line is wrong,
// it shows the list as it was, with the line and the reason.
func (b filterBar) filtered(list func(*http.Request, filterBar) (string, any, error)) handler {
	return func(r *http.Request) (string, any, error) {
		b, query, inForce := b, r.URL.Query(), url.Values{} // b is shared
		for _, name := range b.Names {
			if value := query.Get(name); value != "" {
				inForce.Set(name, value)
			}
		}
		if query.Has(typedParameter) {
			b.Typed = query.Get(typedParameter)
			next, wrong := typedFilter(inForce, b.Typed, b.Names)
			if wrong == nil {
				return "", nil, moved(b.to(next))
			}
			b.Wrong = "The filter was not changed: " + strings.TrimSuffix(wrong.Error(), ".") + "."
			r = r.Clone(r.Context())
			query.Del(typedParameter)
			r.URL.RawQuery = query.Encode()
		}
		b.Query, b.Tokens = inForce.Encode(), b.tokens(inForce)
		name, data, err := list(r, b)
		if read, is := data.(later); is && err == nil && b.Wrong != "" {
			data, err = read()
		}
		if err == nil && b.Wrong != "" {
			err = shown{http.StatusUnprocessableEntity, name, data}
		}
		return name, data, err
	}
}

func (b filterBar) to(filter url.Values) string {
	if len(filter) == 0 {
		return b.Path
	}
	return b.Path + "?" + filter.Encode()
}

func (b filterBar) tokens(inForce url.Values) (all []token) {
	for _, name := range b.Names {
		if value := inForce.Get(name); value != "" {
			others := maps.Clone(inForce)
			others.Del(name)
			all = append(all, token{name, value, b.to(others)})
		}
	}
	return all
}

// typedFilter returns the filter in force with the tokens of a line in place of those with the same names. Words
// without a name are a part of the error.
func typedFilter(inForce url.Values, line string, names []string) (url.Values, error) {
	if len(line) > maxTyped {
		return nil, fmt.Errorf("it is longer than %d bytes", maxTyped)
	}
	tokens, err := readTokens(line)
	if err != nil {
		return nil, err
	}
	typed, words := url.Values{}, []string{}
	for _, t := range tokens {
		name := strings.ToLower(t.Name)
		switch {
		case name != "" && !slices.Contains(names, name):
			return nil, fmt.Errorf("there is no filter %s; use %s; put a text with a colon in double quotes", t.Name,
				strings.Join(names, ", "))
		case t.Value == "" && name != "":
			return nil, fmt.Errorf("%s has no value; write it after the colon, without a space", name)
		case name == "" || name == "error":
			words = append(words, t.Value)
		case typed.Has(name):
			return nil, fmt.Errorf("%s is there twice", name)
		case name == "status":
			typed.Set(name, statusNamed(t.Value))
		default:
			typed.Set(name, t.Value)
		}
	}
	if text := strings.TrimSpace(strings.Join(words, " ")); text != "" {
		typed.Set("error", text)
	}
	next := maps.Clone(inForce)
	maps.Copy(next, typed)
	if _, err := readNarrow(next); err != nil {
		return nil, err
	}
	if _, _, err := readMore(next); err != nil {
		return nil, err
	}
	return next, checkStatus(next.Get("status"))
}

// statusNamed returns the status that is typed by its name or by that of its badge.
func statusNamed(typed string) string {
	for _, status := range statuses {
		if strings.EqualFold(typed, view.Status(status)) {
			return status
		}
	}
	return strings.ToUpper(typed)
}

var (
	tokenName  = regexp.MustCompile(`^(\pL[\pL\d_-]*):`)
	quotedText = regexp.MustCompile(`^"((?:[^"]|"")*)"`)
)

// readTokens splits a line into tokens. A value with spaces stands in double quotes, in which two stand for one.
func readTokens(line string) (tokens []token, err error) {
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		var t token
		if name := tokenName.FindStringSubmatch(line); name != nil {
			t.Name, line = name[1], line[len(name[0]):]
		}
		if quoted := quotedText.FindStringSubmatch(line); quoted != nil {
			t.Value, line = strings.ReplaceAll(quoted[1], `""`, `"`), line[len(quoted[0]):]
		} else if strings.HasPrefix(line, `"`) {
			return nil, errors.New("a double quote is not closed")
		} else {
			end := strings.IndexFunc(line, unicode.IsSpace)
			if end < 0 {
				end = len(line)
			}
			t.Value, line = line[:end], line[end:]
		}
		tokens = append(tokens, t)
	}
	return tokens, nil
}

// suggestionsShown is how many names are suggested.
const suggestionsShown = 10

// suggest answers with values of a filter, one a line: those that begin as typed, or parts of recent errors that
// contain what is typed. Definitions are those of one workspace.
func (s *Site) suggest(w http.ResponseWriter, r *http.Request) {
	names, err := s.suggestions(r)
	if err != nil {
		s.answer(w, r, "", "", nil, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprint(w, strings.Join(names, "\n"))
}

func (s *Site) suggestions(r *http.Request) (names []string, err error) {
	typed, workspace := r.URL.Query().Get("q"), r.URL.Query().Get("workspace")
	if err := checkText("q", typed); err != nil {
		return nil, err
	}
	if err := checkText("workspace", workspace); err != nil {
		return nil, err
	}
	of := r.URL.Query().Get("of")
	switch of {
	case "status":
		return beginning(statuses, strings.ToUpper(typed)), nil
	case "since", "until":
		return beginning(suggestedAges, typed), nil
	}
	if of == "error" {
		errors, err := s.Read.CompleteErrors(r.Context(), typed, suggestionsShown)
		return slices.DeleteFunc(errors, func(text string) bool { return checkText("error", text) != nil }), err
	}
	if of == "workspace" {
		found, err := s.Read.CompleteWorkspaces(r.Context(), typed, suggestionsShown)
		for _, w := range found {
			names = append(names, w.Name)
		}
		return names, err
	}
	found, err := s.Read.FindWorkspaces(r.Context(), workspace)
	if err != nil || len(found) != 1 {
		return nil, err
	}
	return s.Read.CompleteDefinitions(r.Context(), found[0].ID, typed, suggestionsShown)
}

func beginning(all []string, typed string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(one string) bool { return !strings.HasPrefix(one, typed) })
}
