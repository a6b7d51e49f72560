package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pgdispatch/pgdispatch/internal/operate"
	"github.com/pgdispatch/pgdispatch/internal/operate/view"
)

// key is a typed character, or one of the keys below.
type key rune

const (
	keyUp key = -1 - iota
	keyDown
	keyPageUp
	keyPageDown
)

const (
	keyInterrupt key = 0x03 // raw mode passes Ctrl-C and Ctrl-D as bytes
	keyEnd       key = 0x04
	keyBackspace key = 0x7f
	keyControlH  key = 0x08
	keyEscape    key = 0x1b
	keyEnter     key = '\r'
	keyNewline   key = '\n'
)

// maxFilter is the longest filter, in characters.
const maxFilter = 100

// sequences are what terminals send for keys that are no character.
var sequences = map[string]key{
	"\x1b[A": keyUp, "\x1bOA": keyUp, "\x1b[B": keyDown, "\x1bOB": keyDown, "\x1b[5~": keyPageUp,
	"\x1b[6~": keyPageDown,
}

var keyHelp = []string{
	"",
	"s                sort by the next: oldest, running, failures, name",
	"/                show workspaces with a part of the name: type it, then Enter; Esc leaves it",
	"Esc              show all workspaces again",
	"j, k, arrows     scroll by a line",
	"PgDn, PgUp       scroll by a page",
	"?                show these keys, and leave them",
	"q, Ctrl-C        end",
}

// effect is what a key asks for.
type effect int

const (
	drawAgain effect = iota
	lookAgain
	endWatch
)

// press carries out a key.
func (w *watcher) press(k key, screen view.Screen) effect {
	switch {
	case k == keyInterrupt || k == keyEnd:
		return endWatch
	case w.typing:
		return w.write(k)
	}
	shown := w.help
	w.help = false
	switch k {
	case 'q', 'Q':
		return endWatch
	case '?':
		w.help = !shown
	case 's':
		orders := []operate.WorkspaceOrder{operate.ByOldest, operate.ByRunning, operate.ByFailures, operate.ByName}
		w.Sort = orders[(slices.Index(orders, w.Sort)+1)%len(orders)]
		return lookAgain
	case '/':
		w.typing, w.typed = true, w.filter
	case keyEscape:
		if w.filter != "" {
			w.filter = ""
			return lookAgain
		}
	case 'j', keyDown:
		w.scrollBy(1, screen)
	case 'k', keyUp:
		w.scrollBy(-1, screen)
	case keyPageDown:
		w.scrollBy(w.page(), screen)
	case keyPageUp:
		w.scrollBy(-w.page(), screen)
	}
	return drawAgain
}

// write carries out a key while the filter is being typed.
func (w *watcher) write(k key) effect {
	switch k {
	case keyEnter, keyNewline:
		w.typing, w.filter, w.scroll = false, strings.TrimSpace(w.typed), 0
		return lookAgain
	case keyEscape:
		w.typing = false
	case keyBackspace, keyControlH:
		_, size := utf8.DecodeLastRuneInString(w.typed)
		w.typed = w.typed[:len(w.typed)-size]
	default:
		if k > 0 && unicode.IsPrint(rune(k)) && utf8.RuneCountInString(w.typed) < maxFilter {
			w.typed += string(rune(k))
		}
	}
	return drawAgain
}

// page returns how many lines a page has: all but the first line, the footer, and one to go on from.
func (w *watcher) page() int {
	_, height := w.size()
	return max(height-3, 1)
}

func (w *watcher) scrollBy(lines int, screen view.Screen) {
	w.arrange(&screen)
	width, height := w.size()
	most := screen.MaxScroll(view.Style{Width: width, Height: height})
	w.scroll = min(max(min(w.scroll, most)+lines, 0), most)
}

// arrange adds to a screen what the keys have asked for.
func (w *watcher) arrange(screen *view.Screen) {
	screen.Scroll = w.scroll
	if w.help {
		screen.Instead, screen.Scroll = keyHelp, 0
	}
	screen.Footer = fmt.Sprintf("every %s; by %s", w.Interval, w.Sort)
	if w.filter != "" {
		screen.Footer += fmt.Sprintf("; names with %q", view.Printable(w.filter))
	}
	screen.Footer += "; ? shows the keys; q ends"
	if w.typing {
		screen.Footer = "part of the name (Enter, Esc): " + view.Printable(w.typed) + "_"
	}
}

// readKeys forwards typed keys. A blocked read of a terminal cannot be cancelled, so it may last until the process
// ends.
func readKeys(in io.Reader, keys chan<- key, done <-chan struct{}) {
	var typed []byte
	for buffer := make([]byte, 64); ; {
		n, err := in.Read(buffer)
		if err != nil {
			return
		}
		typed = append(typed, buffer[:n]...)
		for {
			k, size := firstKey(typed)
			if size == 0 {
				break
			}
			typed = typed[size:]
			select {
			case keys <- k:
			case <-done:
				return
			}
		}
	}
}

// firstKey returns the first key that was typed, and its size in bytes. The size is 0 if its bytes are not complete. A
// terminal sends the bytes of one key at once, so an ESC at the end is the key Esc.
func firstKey(typed []byte) (key, int) {
	if len(typed) == 0 || !utf8.FullRune(typed) {
		return 0, 0
	}
	for sequence, k := range sequences {
		if strings.HasPrefix(string(typed), sequence) {
			return k, len(sequence)
		}
	}
	if len(typed) > 2 && typed[0] == byte(keyEscape) && (typed[1] == '[' || typed[1] == 'O') { // another key: left out
		end := 2
		for end < len(typed)-1 && (typed[end] < 0x40 || typed[end] > 0x7e) {
			end++
		}
		return 0, end + 1
	}
	r, size := utf8.DecodeRune(typed)
	return key(r), size
}
