package postgres_test

import (
	"fmt"

	"github.com/pgdispatch/pgdispatch/internal/postgres"
)

func ExampleClean() {
	fmt.Println(postgres.Clean("dial tcp\n127.0.0.1:7233:\tconnection refused\n"))
	// Output: dial tcp 127.0.0.1:7233: connection refused
}
