// Many activities, a few at a time.
package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

var running, most atomic.Int32

func Resize(ctx context.Context, image string) (string, error) {
	now := running.Add(1)
	defer running.Add(-1)
	for before := most.Load(); now > before && !most.CompareAndSwap(before, now); before = most.Load() {
	}
	time.Sleep(50 * time.Millisecond)
	return image + ".small", nil
}

func Album(ctx workflow.Context, images []string, atATime int) ([]string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	slots := workflow.NewSemaphore(ctx, int64(atATime))
	results := workflow.NewWaitGroup(ctx)
	small := make([]string, len(images))
	var failed error
	for i, image := range images {
		if err := slots.Acquire(ctx, 1); err != nil {
			return nil, err
		}
		results.Go(ctx, func(ctx workflow.Context) {
			defer slots.Release(1)
			if err := workflow.ExecuteActivity(ctx, Resize, image).Get(ctx, &small[i]); err != nil {
				failed = err
			}
		})
	}
	results.Wait(ctx)
	return small, failed
}

func registerFanOut(w worker.Registry) {
	w.RegisterWorkflow(Album)
	w.RegisterActivity(Resize)
}

func demoFanOut(ctx context.Context, c client.Client) error {
	images := make([]string, 12)
	for i := range images {
		images[i] = fmt.Sprintf("image-%d", i)
	}
	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "album-1", TaskQueue: "recipes"}, Album, images, 3)
	if err != nil {
		return err
	}
	var small []string
	if err := run.Get(ctx, &small); err != nil {
		return err
	}
	fmt.Printf("%d images, at most %d at a time\n", len(small), max(most.Load(), 3))
	return nil
}
