// At most five calls a second to a service, from all workers together.
package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

var (
	callsLock sync.Mutex
	calls     []time.Time
)

func SendSMS(ctx context.Context, number string) error {
	callsLock.Lock()
	defer callsLock.Unlock()
	calls = append(calls, time.Now())
	return nil
}

func Campaign(ctx workflow.Context, numbers []string) (int, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{TaskQueue: "sms", StartToCloseTimeout: 10 * time.Second})
	var sent []workflow.Future
	for _, number := range numbers {
		sent = append(sent, workflow.ExecuteActivity(ctx, SendSMS, number))
	}
	for _, sms := range sent {
		if err := sms.Get(ctx, nil); err != nil {
			return 0, err
		}
	}
	return len(sent), nil
}

func registerRateLimit(w worker.Registry) {
	w.RegisterWorkflow(Campaign)
}

func demoRateLimit(ctx context.Context, c client.Client) error {
	// The server enforces the limit for the whole queue, however many workers poll it.
	sender := worker.New(c, "sms", worker.Options{TaskQueueActivitiesPerSecond: 5})
	sender.RegisterActivity(SendSMS)
	if err := sender.Start(); err != nil {
		return err
	}
	defer sender.Stop()
	numbers := make([]string, 11)
	for i := range numbers {
		numbers[i] = fmt.Sprintf("+49 30 555 %d", i)
	}
	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "campaign-1", TaskQueue: "recipes"}, Campaign, numbers)
	if err != nil {
		return err
	}
	var sent int
	if err := run.Get(ctx, &sent); err != nil {
		return err
	}
	pace := "more than"
	if calls[len(calls)-1].Sub(calls[0]) > 1500*time.Millisecond {
		pace = "at most"
	}
	fmt.Println(sent, "messages,", pace, "5 a second")
	return nil
}
