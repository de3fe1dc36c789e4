// New code for a workflow while runs of the old code are open.
package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

func Step(ctx context.Context, name string) (string, error) {
	return name, nil
}

// The state of an order, of the old code and the new.
type order struct {
	paid  bool
	steps []string
}

func (o *order) do(ctx workflow.Context, name string) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 10 * time.Second})
	o.steps = append(o.steps, name)
	return workflow.ExecuteActivity(ctx, Step, name).Get(ctx, nil)
}

func (o *order) acceptPayment(ctx workflow.Context) error {
	return workflow.SetUpdateHandler(ctx, "pay", func(ctx workflow.Context) error {
		o.paid = true
		return nil
	})
}

func (o *order) reserveAndShip(ctx workflow.Context) error {
	if err := o.do(ctx, "reserved"); err != nil {
		return err
	}
	if err := workflow.Await(ctx, func() bool { return o.paid }); err != nil {
		return err
	}
	return o.do(ctx, "shipped")
}

func OldOrder(ctx workflow.Context) ([]string, error) {
	var o order
	if err := o.acceptPayment(ctx); err != nil {
		return nil, err
	}
	err := o.reserveAndShip(ctx)
	return o.steps, err
}

func Order(ctx workflow.Context) ([]string, error) {
	var o order
	if err := o.acceptPayment(ctx); err != nil {
		return nil, err
	}
	// DefaultVersion in runs that passed this line without it.
	if workflow.GetVersion(ctx, "check-fraud", workflow.DefaultVersion, 1) == 1 {
		if err := o.do(ctx, "checked"); err != nil {
			return nil, err
		}
	}
	err := o.reserveAndShip(ctx)
	return o.steps, err
}

// Starts a worker for this code of the workflow, and an order, which is paid at once.
func startOrder(ctx context.Context, c client.Client, id string, code any) (worker.Worker, client.WorkflowRun, error) {
	w := worker.New(c, "orders", worker.Options{})
	w.RegisterWorkflowWithOptions(code, workflow.RegisterOptions{Name: "Order"})
	w.RegisterActivity(Step)
	if err := w.Start(); err != nil {
		return nil, nil, err
	}
	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: "orders"}, "Order")
	if err != nil {
		return nil, nil, err
	}
	_, err = c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: id, UpdateName: "pay", WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	return w, run, err
}

func demoVersioning(ctx context.Context, c client.Client) error {
	w, old, err := startOrder(ctx, c, "order-old", OldOrder)
	if err != nil {
		return err
	}
	w.Stop()
	w, fresh, err := startOrder(ctx, c, "order-new", Order)
	if err != nil {
		return err
	}
	defer w.Stop()
	var oldSteps, newSteps []string
	if err := old.Get(ctx, &oldSteps); err != nil {
		return err
	}
	if err := fresh.Get(ctx, &newSteps); err != nil {
		return err
	}
	fmt.Println("old run:", strings.Join(oldSteps, ", "))
	fmt.Println("new run:", strings.Join(newSteps, ", "))
	return nil
}
