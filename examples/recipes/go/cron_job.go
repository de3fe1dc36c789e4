// A report at six o'clock on working days.
package main

import (
	"context"
	"fmt"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

func CountOrders(ctx context.Context, region string) (int, error) {
	return 42, nil
}

func Report(ctx workflow.Context, region string) (string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 5 * time.Minute})
	var orders int
	err := workflow.ExecuteActivity(ctx, CountOrders, region).Get(ctx, &orders)
	return fmt.Sprintf("%s: %d orders", region, orders), err
}

func registerCronJob(w worker.Registry) {
	w.RegisterWorkflow(Report)
	w.RegisterActivity(CountOrders)
}

func demoCronJob(ctx context.Context, c client.Client) error {
	schedule, err := c.ScheduleClient().Create(ctx, client.ScheduleOptions{
		ID:            "daily-report",
		Spec:          client.ScheduleSpec{CronExpressions: []string{"0 6 * * MON-FRI"}, TimeZoneName: "Europe/Berlin"},
		Action:        &client.ScheduleWorkflowAction{ID: "report", Workflow: Report, Args: []any{"north"}, TaskQueue: "recipes"},
		Overlap:       enums.SCHEDULE_OVERLAP_POLICY_SKIP, // A report that is still running skips the next one.
		CatchupWindow: time.Hour,
	})
	if err != nil {
		return err
	}
	// To see it work before tomorrow morning.
	if err := schedule.Trigger(ctx, client.ScheduleTriggerOptions{}); err != nil {
		return err
	}
	for {
		description, err := schedule.Describe(ctx)
		if err != nil {
			return err
		}
		if started := description.Info.RecentActions; len(started) > 0 {
			var text string
			if err := c.GetWorkflow(ctx, started[0].StartWorkflowResult.WorkflowID, "").Get(ctx, &text); err != nil {
				return err
			}
			fmt.Println(text)
			return schedule.Delete(ctx)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
