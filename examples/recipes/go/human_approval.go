// A person decides, or the time runs out.
package main

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

func Ask(ctx context.Context, document string) error {
	return nil // Send the approver a link to the page with the two buttons.
}

func Approval(ctx workflow.Context, document string, patience time.Duration) (string, error) {
	decision := ""
	decide := func(ctx workflow.Context, by string, approved bool) (string, error) {
		decision = map[bool]string{true: "approved by ", false: "rejected by "}[approved] + by
		return decision, nil
	}
	check := func(by string, approved bool) error {
		if decision != "" {
			return fmt.Errorf("already %s", decision)
		}
		return nil
	}
	err := workflow.SetUpdateHandlerWithOptions(ctx, "decide", decide, workflow.UpdateHandlerOptions{Validator: check})
	if err != nil {
		return "", err
	}
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 30 * time.Second})
	if err := workflow.ExecuteActivity(ctx, Ask, document).Get(ctx, nil); err != nil {
		return "", err
	}
	decided, err := workflow.AwaitWithTimeout(ctx, patience, func() bool { return decision != "" })
	if err == nil && !decided {
		return "no answer", nil
	}
	return decision, err
}

func registerApproval(w worker.Registry) {
	w.RegisterWorkflow(Approval)
	w.RegisterActivity(Ask)
}

func demoApproval(ctx context.Context, c client.Client) error {
	options := client.StartWorkflowOptions{ID: "approval-budget", TaskQueue: "recipes"}
	budget, err := c.ExecuteWorkflow(ctx, options, Approval, "budget", 7*24*time.Hour)
	if err != nil {
		return err
	}
	update, err := c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID:   budget.GetID(),
		UpdateName:   "decide",
		Args:         []any{"Ada", true},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return err
	}
	var decision string
	if err := update.Get(ctx, &decision); err != nil {
		return err
	}
	fmt.Println(decision)
	options.ID = "approval-travel"
	travel, err := c.ExecuteWorkflow(ctx, options, Approval, "travel", time.Second)
	if err != nil {
		return err
	}
	if err := travel.Get(ctx, &decision); err != nil {
		return err
	}
	fmt.Println(decision)
	return nil
}
