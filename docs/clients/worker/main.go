// go build -o bin/ ./docs/clients/worker && bin/worker, with go.temporal.io/sdk.
package main

import (
	"context"
	"log"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/worker"
)

// SendMail is an activity; pgdispatch starts it without a workflow.
func SendMail(ctx context.Context, to string) (string, error) { return "sent to " + to, nil }

func main() {
	c, err := client.Dial(envconfig.MustLoadDefaultClientOptions())
	if err != nil {
		log.Fatal(err)
	}
	w := worker.New(c, "mails", worker.Options{})
	w.RegisterActivity(SendMail)
	if err := w.Run(worker.InterruptCh()); err != nil {
		log.Fatal(err)
	}
}
