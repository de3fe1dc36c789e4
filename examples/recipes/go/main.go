// Runs a recipe: `go run . saga`. Starts a worker with the recipe's workflows and activities, then the recipe's client.
// `go run .` runs all of them.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
)

type recipe struct {
	name string
	// Adds workflows and activities to the worker; nil: the recipe starts its workers itself.
	register func(worker.Registry)
	demo     func(context.Context, client.Client) error
}

var recipes = []recipe{
	{"human-approval", registerApproval, demoApproval},
	{"saga", registerSaga, demoSaga},
	{"cron-job", registerCronJob, demoCronJob},
	{"fan-out", registerFanOut, demoFanOut},
	{"rate-limit", registerRateLimit, demoRateLimit},
	{"production-worker", nil, demoProductionWorker},
	{"versioning", nil, demoVersioning},
	{"polling", registerPolling, demoPolling},
	{"webhook", registerWebhook, demoWebhook},
	{"large-payloads", registerLargePayloads, demoLargePayloads},
}

func main() {
	quiet := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	c, err := client.Dial(client.Options{
		HostPort: cmp.Or(os.Getenv("TEMPORAL_ADDRESS"), "127.0.0.1:7233"),
		Logger:   sdklog.NewStructuredLogger(quiet),
	})
	if err != nil {
		log.Fatalln(err)
	}
	defer c.Close()
	for _, recipe := range recipes {
		if len(os.Args) > 1 && os.Args[1] != recipe.name {
			continue
		}
		fmt.Println("==", recipe.name)
		if err := run(c, recipe); err != nil {
			log.Fatalln(err)
		}
	}
}

func run(c client.Client, recipe recipe) error {
	if recipe.register != nil {
		w := worker.New(c, "recipes", worker.Options{})
		recipe.register(w)
		if err := w.Start(); err != nil {
			return err
		}
		defer w.Stop()
	}
	return recipe.demo(context.Background(), c)
}
