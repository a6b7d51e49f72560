//go:build clients

package main

import "os"

// make clients installs their dependencies.
func init() {
	if err := os.Setenv("NODE_PATH", "../../.cache/clients/node_modules"); err != nil {
		panic(err)
	}
	others = []client{
		{"enqueue.py", arguments("/usr/bin/python3", "enqueue.py")},
		{"enqueue.js", arguments("node", "enqueue.js")},
		{"Enqueue.java", arguments("java", "-cp", "/usr/share/java/postgresql.jar", "Enqueue.java")},
		{"enqueue.rb", arguments("ruby", "enqueue.rb")},
	}
}
