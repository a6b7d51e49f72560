package config

import "slices"

// Nearest returns the word that was probably meant by a misspelt one, or "" if none is near.
func Nearest(misspelt string, words []string) string {
	if len(words) == 0 {
		return ""
	}
	nearest := slices.MinFunc(words, func(a, b string) int { return distance(misspelt, a) - distance(misspelt, b) })
	if distance(misspelt, nearest) > max(1, len(nearest)/3) {
		return ""
	}
	return nearest
}
