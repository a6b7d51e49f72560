// Package browser holds tests only. They drive the web view in a real browser, against real replicas.
package browser
