// Package browser contains only tests. They drive the web view in a real browser, against real replicas.
package browser
