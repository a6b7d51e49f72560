package schedule

import "slices"

// recent is how far back in tokens it costs nothing to count.
const recent = 1000

// After is what is known once holders beyond To were counted: their tokens, and the last token that anybody has drawn. What is counted
// the next time begins at To. One old holder would have all that were counted since read again and again, so it is kept as a number:
// To is put where the most tokens in a row have no holder.
func (r Receipt) After(tokens []int64, last int64) Receipt {
	slices.Sort(tokens)
	// In a database that was copied without its sequence, some are of tokens still to come: they are counted again and again.
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

// Anew is the same receipt for a count of all holders.
func (r Receipt) Anew() Receipt { return Receipt{Floor: r.Floor, To: max(r.Floor-1, 0)} }
