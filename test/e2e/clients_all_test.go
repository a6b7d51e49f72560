//go:build clients

package e2e

import "os"

// make clients installs their dependencies.
func init() {
	if err := os.Setenv("NODE_PATH", "../../.cache/clients/node_modules"); err != nil {
		panic(err)
	}
	others = []program{
		{"enqueue.py", arguments("/usr/bin/python3", "enqueue.py"), false},
		{"enqueue.js", arguments("node", "enqueue.js"), false},
		{"Enqueue.java", arguments("java", "-cp", "/usr/share/java/postgresql.jar", "Enqueue.java"), false},
		{"enqueue.rb", arguments("ruby", "enqueue.rb"), false},
	}
}
