// Data that is too large for history: workflows pass the name of a file, activities read and write it.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

var store = os.TempDir() // Use an object store that all workers reach, such as S3.

func Download(ctx context.Context, workflowID string) (string, error) {
	key := workflowID + ".bin" // The same in every attempt: a repeat overwrites the file.
	return key, os.WriteFile(filepath.Join(store, key), bytes.Repeat([]byte("x"), 5_000_000), 0o600)
}

func Measure(ctx context.Context, key string) (string, error) {
	data, err := os.ReadFile(filepath.Join(store, key))
	return fmt.Sprintf("%d bytes", len(data)), err
}

func Remove(ctx context.Context, key string) error {
	return os.RemoveAll(filepath.Join(store, key))
}

func Digest(ctx workflow.Context) (text string, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	var key string
	id := workflow.GetInfo(ctx).WorkflowExecution.ID
	if err := workflow.ExecuteActivity(ctx, Download, id).Get(ctx, &key); err != nil {
		return "", err
	}
	defer func() {
		ctx, _ := workflow.NewDisconnectedContext(ctx)
		if failed := workflow.ExecuteActivity(ctx, Remove, key).Get(ctx, nil); err == nil {
			err = failed
		}
	}()
	err = workflow.ExecuteActivity(ctx, Measure, key).Get(ctx, &text)
	return text, err
}

func registerLargePayloads(w worker.Registry) {
	w.RegisterWorkflow(Digest)
	w.RegisterActivity(Download)
	w.RegisterActivity(Measure)
	w.RegisterActivity(Remove)
}

func demoLargePayloads(ctx context.Context, c client.Client) error {
	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "digest-go", TaskQueue: "recipes"}, Digest)
	if err != nil {
		return err
	}
	var text string
	if err := run.Get(ctx, &text); err != nil {
		return err
	}
	fmt.Println(text)
	return nil
}
