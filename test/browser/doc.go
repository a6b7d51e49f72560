// Package browser holds no product: its tests drive the web view in a real browser, against real replicas.
package browser
