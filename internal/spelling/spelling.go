// Package spelling finds the words that were probably meant by others.
package spelling

import (
	"slices"
	"strings"
)

// mostLikely is how many words Likely returns at most.
const mostLikely = 3

// Likely returns the words that were probably meant by text: those that contain it or, if none does, the nearest. It
// ignores case. Empty if none is near.
func Likely(text string, words []string) []string {
	var likely []string
	for _, word := range words {
		if len(likely) < mostLikely && strings.Contains(strings.ToLower(word), strings.ToLower(text)) {
			likely = append(likely, word)
		}
	}
	if nearest := Nearest(text, words); likely == nil && nearest != "" {
		likely = []string{nearest}
	}
	return likely
}

// Nearest returns the word that was probably meant by a misspelt one, ignoring case, or "" if none is near.
func Nearest(misspelt string, words []string) string {
	if len(words) == 0 {
		return ""
	}
	distanceTo := func(word string) int { return Distance(strings.ToLower(misspelt), strings.ToLower(word)) }
	nearest := slices.MinFunc(words, func(a, b string) int { return distanceTo(a) - distanceTo(b) })
	if distanceTo(nearest) > max(1, len(nearest)/3) {
		return ""
	}
	return nearest
}

// Distance returns the Levenshtein distance between a and b, in bytes.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
