// Three bookings that belong together: if one fails, those before it are undone, the last one first.
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

func Book(ctx context.Context, what string) error {
	if what == "tour" {
		return temporal.NewNonRetryableApplicationError("the tour is sold out", "SoldOut", nil)
	}
	fmt.Println("booked", what)
	return nil
}

func CancelBooking(ctx context.Context, what string) error {
	fmt.Println("cancelled", what) // Must succeed for what was never booked, too.
	return nil
}

func Trip(ctx workflow.Context, parts []string) (err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 30 * time.Second})
	var undo []string
	defer func() {
		if err == nil {
			return
		}
		// Also when the workflow is cancelled, which cancels ctx.
		ctx, _ := workflow.NewDisconnectedContext(ctx)
		for _, part := range slices.Backward(undo) {
			if failed := workflow.ExecuteActivity(ctx, CancelBooking, part).Get(ctx, nil); failed != nil {
				err = errors.Join(err, failed)
			}
		}
	}()
	for _, part := range parts {
		undo = append(undo, part) // Before the booking: it may take place although its answer is lost.
		if err := workflow.ExecuteActivity(ctx, Book, part).Get(ctx, nil); err != nil {
			return err
		}
	}
	return nil
}

func registerSaga(w worker.Registry) {
	w.RegisterWorkflow(Trip)
	w.RegisterActivity(Book)
	w.RegisterActivity(CancelBooking)
}

func demoSaga(ctx context.Context, c client.Client) error {
	options := client.StartWorkflowOptions{ID: "trip-1", TaskQueue: "recipes"}
	run, err := c.ExecuteWorkflow(ctx, options, Trip, []string{"flight", "hotel", "tour"})
	if err != nil {
		return err
	}
	var failure *temporal.ApplicationError
	if err := run.Get(ctx, nil); !errors.As(err, &failure) {
		return fmt.Errorf("not the expected failure: %w", err)
	}
	fmt.Println("failed:", failure.Message())
	return nil
}
