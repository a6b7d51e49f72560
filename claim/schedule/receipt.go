package schedule

import "slices"

// recent is how many of the newest tokens are cheap enough to be counted again each time.
const recent = 1000

// After returns the receipt after a count of the holders beyond To. tokens are their tokens; last is the last token
// drawn so far. The next count starts at the new To. If To had to stay below one old holder, every later count would
// read all tokens since. Therefore old holders are kept as the number Held, and To is placed at the widest gap between
// tokens.
func (r Receipt) After(tokens []int64, last int64) Receipt {
	slices.Sort(tokens)
	// In a database that was copied without its sequence, some tokens are still to be drawn. They are counted each
	// time.
	for len(tokens) > 0 && tokens[len(tokens)-1] > last {
		tokens = tokens[:len(tokens)-1]
	}
	next := Receipt{Floor: r.Floor, Held: r.Held, To: last}
	if r.Held == 0 {
		next.Floor = last + 1
		if len(tokens) > 0 {
			next.Floor = tokens[0]
		}
	}
	if len(tokens) == 0 {
		return next
	}
	if last-tokens[0] <= int64(recent+4*len(tokens)) {
		next.To = tokens[0] - 1
		return next
	}
	widest, held := last-tokens[len(tokens)-1], len(tokens)
	for n := len(tokens) - 1; n > 0; n-- {
		if gap := tokens[n] - tokens[n-1]; gap > widest {
			widest, held = gap, n
		}
	}
	next.Held += held
	if held < len(tokens) {
		next.To = tokens[held] - 1
	}
	return next
}

// Recount returns the same receipt for a count of all holders.
func (r Receipt) Recount() Receipt { return Receipt{Floor: r.Floor, To: max(r.Floor-1, 0)} }
