// A worker for production: it says whether it is healthy, and ends what it has begun before it stops.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"syscall"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

func ImportRows(ctx context.Context, count int) (string, error) {
	for row := range count {
		activity.RecordHeartbeat(ctx, row) // Without one for 10 s the attempt times out, and the next one begins.
		time.Sleep(300 * time.Millisecond)
	}
	return fmt.Sprintf("%d rows in attempt %d", count, activity.GetInfo(ctx).Attempt), nil
}

func Import(ctx workflow.Context, count int) (string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: time.Hour,
		HeartbeatTimeout:    10 * time.Second,
	})
	var text string
	err := workflow.ExecuteActivity(ctx, ImportRows, count).Get(ctx, &text)
	return text, err
}

func importWorker(c client.Client) worker.Worker {
	w := worker.New(c, "imports", worker.Options{WorkerStopTimeout: 30 * time.Second})
	w.RegisterWorkflow(Import)
	w.RegisterActivity(ImportRows)
	return w
}

// Runs until SIGTERM or SIGINT, then gives activities under way 30 s.
func work(c client.Client, healthAddress string) error {
	health := http.Server{Addr: healthAddress, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := c.CheckHealth(r.Context(), nil); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})}
	go health.ListenAndServe()
	defer health.Close()
	stop := make(chan any)
	go func() {
		<-worker.InterruptCh() // SIGTERM and SIGINT
		fmt.Println("stopping")
		close(stop)
	}()
	err := importWorker(c).Run(stop)
	fmt.Println("stopped")
	return err
}

func demoProductionWorker(ctx context.Context, c client.Client) error {
	stopped := make(chan error)
	go func() { stopped <- work(c, "127.0.0.1:18083") }()
	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "import-1", TaskQueue: "imports"}, Import, 3)
	if err != nil {
		return err
	}
	for pending := 0; pending == 0; time.Sleep(100 * time.Millisecond) {
		description, err := c.DescribeWorkflowExecution(ctx, run.GetID(), "")
		if err != nil {
			return err
		}
		pending = len(description.PendingActivities)
	}
	answer, err := http.Get("http://127.0.0.1:18083")
	if err != nil {
		return err
	}
	answer.Body.Close()
	fmt.Println("health:", answer.StatusCode)
	syscall.Kill(os.Getpid(), syscall.SIGTERM) // As `docker stop` and Kubernetes do.
	if err := <-stopped; err != nil {
		return err
	}
	next := importWorker(c)
	if err := next.Start(); err != nil {
		return err
	}
	defer next.Stop()
	var text string
	if err := run.Get(ctx, &text); err != nil {
		return err
	}
	fmt.Println(text)
	return nil
}
