// Waits for a job of another company, whose API can only be asked.
package main

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

func FetchExport(ctx context.Context, job string) (string, error) {
	attempt := activity.GetInfo(ctx).Attempt
	if attempt < 3 { // Ask the API here; below is its answer "not yet".
		return "", temporal.NewApplicationError(job+" is not ready", "NotReady")
	}
	return fmt.Sprintf("%s.csv after %d attempts", job, attempt), nil
}

func FetchFile(ctx workflow.Context, job string, every time.Duration) (string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout:    20 * time.Second, // one question
		ScheduleToCloseTimeout: 48 * time.Hour,   // all of them
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: every, BackoffCoefficient: 1},
	})
	var file string
	err := workflow.ExecuteActivity(ctx, FetchExport, job).Get(ctx, &file)
	return file, err
}

func registerPolling(w worker.Registry) {
	w.RegisterWorkflow(FetchFile)
	w.RegisterActivity(FetchExport)
}

func demoPolling(ctx context.Context, c client.Client) error {
	options := client.StartWorkflowOptions{ID: "export-7", TaskQueue: "recipes"}
	run, err := c.ExecuteWorkflow(ctx, options, FetchFile, "export-7", time.Second)
	if err != nil {
		return err
	}
	var file string
	if err := run.Get(ctx, &file); err != nil {
		return err
	}
	fmt.Println(file)
	return nil
}
