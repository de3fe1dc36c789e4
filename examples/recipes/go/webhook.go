// A webhook whose sender repeats events: each is handled once.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

type PaymentEvent struct {
	ID     string
	Amount int
}

func BookPayment(ctx context.Context, event PaymentEvent) error {
	fmt.Println("booked", event.Amount)
	return nil
}

func Payment(ctx workflow.Context, event PaymentEvent) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 30 * time.Second})
	return workflow.ExecuteActivity(ctx, BookPayment, event).Get(ctx, nil)
}

// The handler of `POST /webhook`; gives the HTTP status.
func receive(ctx context.Context, c client.Client, event PaymentEvent) int {
	_, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                                       "payment-" + event.ID, // Chosen by the sender, the same in every repeat.
		TaskQueue:                                "recipes",
		WorkflowIDConflictPolicy:                 enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,          // while the workflow runs
		WorkflowIDReusePolicy:                    enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE, // after its end
		WorkflowExecutionErrorWhenAlreadyStarted: true,
	}, Payment, event)
	var duplicate *serviceerror.WorkflowExecutionAlreadyStarted
	switch {
	case err == nil:
		return http.StatusAccepted
	case errors.As(err, &duplicate):
		return http.StatusOK
	default:
		return http.StatusInternalServerError // The sender repeats the event.
	}
}

func registerWebhook(w worker.Registry) {
	w.RegisterWorkflow(Payment)
	w.RegisterActivity(BookPayment)
}

func demoWebhook(ctx context.Context, c client.Client) error {
	event := PaymentEvent{ID: "evt-1", Amount: 450}
	first, second := receive(ctx, c, event), receive(ctx, c, event)
	if err := c.GetWorkflow(ctx, "payment-evt-1", "").Get(ctx, nil); err != nil {
		return err
	}
	fmt.Println(first, second, receive(ctx, c, event))
	return nil
}
