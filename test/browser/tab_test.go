package browser

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// step is an action in a tab.
type step = chromedp.Action[chromedp.Void]

func command[P, R any](c cdp.Command[P, R], params P) step {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

// Ways to display a page.
var (
	desk  = chromedp.EmulateViewport(1280, 900)
	wide  = chromedp.EmulateViewport(1440, 900)
	phone = chromedp.EmulateViewport(390, 844, chromedp.EmulateMobile, chromedp.EmulateTouch)
	light = scheme("light")
	dark  = scheme("dark")
	// still keeps the page from updating itself.
	still = command(page.AddScriptToEvaluateOnNewDocument,
		page.AddScriptToEvaluateOnNewDocumentParams{Source: `window.EventSource = class extends EventTarget {};
			Object.defineProperty(document, "hidden", { get: () => true })`})
)

func scheme(name string) step {
	return command(emulation.SetEmulatedMedia,
		emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
}

// tab is a page in a browser context of its own, with its own history and storage.
type tab struct {
	t   testing.TB
	ctx context.Context
	// origin is the site's. A request to any other origin is a fault.
	origin string

	mu     sync.Mutex
	faults []string
}

// open opens a page of a site. Any fault that the browser reports, then or later, fails the test.
func (s *site) open(t testing.TB, path string, looks ...step) *tab {
	t.Helper()
	return openAt(t, s.origin, s.user, path, looks...)
}

func openAt(t testing.TB, origin, user, path string, looks ...step) *tab {
	t.Helper()
	p := &tab{t: t, origin: origin}
	var cancel context.CancelFunc
	p.ctx, cancel = chromedp.NewContext(shared.browser, chromedp.WithNewBrowserContext(), chromedp.WithListener(p.hear))
	t.Cleanup(cancel)
	require.NoError(t, chromedp.Do(p.ctx)) // the tab lives as long as the context of its first step
	p.run(command(network.Enable, network.EnableParams{}), command(audits.Enable, cdp.Empty{}),
		command(emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}), desk)
	p.run(looks...)
	if user != "" {
		// From here on the browser knows the password.
		p.follow(chromedp.Navigate(strings.Replace(origin, "://", "://"+user+"@", 1) + "/ui/items?workspace=nobody"))
	}
	p.visit(path)
	t.Cleanup(func() {
		require.Empty(t, p.forgive(), "faults that the browser reported")
	})
	return p
}

// visit goes to a page by its address, as if typed.
func (p *tab) visit(path string) { p.t.Helper(); p.follow(chromedp.Navigate(p.origin + path)) }

// follow runs steps that lead to another page, and waits for that page.
func (p *tab) follow(steps ...step) *network.Response {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	response, err := chromedp.RunResponse(ctx, steps...)
	for isGone(err) && ctx.Err() == nil {
		response, err = chromedp.RunResponse(ctx, steps...)
	}
	require.NoError(p.t, err)
	return response
}

func (p *tab) run(steps ...step) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	for _, one := range steps {
		err := chromedp.Do(ctx, one)
		for isGone(err) && ctx.Err() == nil {
			err = chromedp.Do(ctx, one)
		}
		require.NoError(p.t, err)
	}
}

// isGone reports whether the page replaced an element between its being found and being used. Then nothing was done.
func isGone(err error) bool {
	return err != nil && strings.Contains(err.Error(), "Could not find node")
}

// hear receives the tab's events and records faults.
func (p *tab) hear(event any) {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		p.fault("exception: %s", describe(e.ExceptionDetails))
	case *runtime.EventConsoleAPICalled:
		bad := []runtime.ConsoleAPICalledType{runtime.ConsoleAPICalledTypeError,
			runtime.ConsoleAPICalledTypeWarning, runtime.ConsoleAPICalledTypeAssert}
		if slices.Contains(bad, e.Type) {
			p.fault("console: %s", e.Type)
		}
	case *log.EventEntryAdded: // such as a refusal by the content security policy, or an error response
		p.fault("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
	case *audits.EventIssueAdded:
		details, _ := json.Marshal(e.Issue.Details)
		p.fault("issue: %s %s", e.Issue.Code, details)
	case *network.EventLoadingFailed:
		if !e.Canceled {
			p.fault("request failed: %s", e.ErrorText)
		}
	case *network.EventRequestWillBeSent:
		if asked, err := url.Parse(e.Request.URL); err != nil || asked.Scheme+"://"+asked.Host != p.origin {
			p.fault("request to elsewhere: %s", e.Request.URL)
		}
	case *page.EventJavascriptDialogOpening:
		p.fault("dialog: %s", e.Message)
		go func() {
			_ = chromedp.Do(p.ctx, command(page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: true}))
		}() // otherwise the dialog blocks the page
	}
}

func describe(e *runtime.ExceptionDetails) string {
	if e.Exception != nil {
		return e.Text + " " + e.Exception.Description
	}
	return e.Text
}

func (p *tab) fault(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

// forgive returns the faults so far and clears them, because the test expected them.
func (p *tab) forgive() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	faults := p.faults
	p.faults = nil
	return faults
}

// ask evaluates an expression in the page, and awaits it if it is a promise.
func ask[T any](p *tab, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(p.t, err)
	return value
}

// texts returns the texts of all elements that match a selector.
func (p *tab) texts(selector string) []string {
	p.t.Helper()
	return ask[[]string](p, fmt.Sprintf(`[...document.querySelectorAll(%q)].map(e => e.innerText.trim())`, selector))
}

func (p *tab) text(selector string) string {
	p.t.Helper()
	return strings.Join(p.texts(selector), "\n")
}

func (p *tab) width() int { p.t.Helper(); return ask[int](p, "document.documentElement.scrollWidth") }

// press presses keys, one after another.
func (p *tab) press(keys ...string) {
	p.t.Helper()
	p.run(chromedp.KeyEvent(strings.Join(keys, "")))
}

// helpers are functions in the page: what Tab must reach, and its label.
const helpers = `(() => {
	window.reachable = () => [...document.querySelectorAll(
		"a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']"
	)].filter(e => e.checkVisibility() && (e.type !== "radio" || e.checked));
	window.label = e => (e.labels?.[0]?.innerText || e.getAttribute("aria-label") || e.innerText || "").trim();
})(); `

// focus is the element that has the keyboard focus.
type focus struct {
	Index int    // among everything that Tab reaches; -1: nowhere
	Label string // of the element
	Ring  bool   // whether a focus ring is visible
	Seen  bool   // whether it is on the screen
}

func (p *tab) focus() focus {
	p.t.Helper()
	return ask[focus](p, helpers+`(() => {
		const e = document.activeElement, style = getComputedStyle(e), box = e.getBoundingClientRect();
		return {
			Index: reachable().indexOf(e), Label: label(e),
			Ring: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
			Seen: box.width > 0 && box.height > 0 && box.bottom > 0 && box.right > 0 &&
				box.top < innerHeight && box.left < innerWidth,
		};
	})()`)
}

// tabTo presses Tab until it reaches the next element with this label or, if there is none, one whose label begins with
// it.
func (p *tab) tabTo(label string) {
	p.t.Helper()
	from := p.focus().Index
	labels := ask[[]string](p, helpers+`reachable().map(label)`)
	after := slices.Index(labels[from+1:], label)
	if after < 0 {
		after = slices.IndexFunc(labels[from+1:], func(l string) bool { return strings.HasPrefix(l, label) })
	}
	at := from + 1 + after
	require.GreaterOrEqual(p.t, after, 0, "no element further on has the label %q: %q", label, labels)
	p.press(slices.Repeat([]string{kb.Tab}, at-from)...)
	require.Equal(p.t, at, p.focus().Index, "Tab reaches another element")
}

// axe is axe-core. It is injected through the developer tools' protocol, which content security policies do not block.
//
//go:embed testdata/axe/axe.min.js
var axe string

// violations returns what axe-core finds against WCAG 2 A and AA, and against good practice.
func (p *tab) violations() []string {
	p.t.Helper()
	p.run(chromedp.Evaluate[chromedp.Void](axe))
	return ask[[]string](p, `axe.run({resultTypes: ["violations"]}).then(found => found.violations.flatMap(v =>
		v.nodes.map(n => v.impact + " " + v.id + ": " + n.html.slice(0, 200) + "\n" + n.failureSummary)))`)
}
