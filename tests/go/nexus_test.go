package security

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nexus-rpc/sdk-go/nexus"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/temporalnexus"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

const (
	paymentsEndpoint = "payments"
	paymentsService  = "Payments"
	paymentsQueue    = "handlers"
	financeNamespace = "finance"
	ordersQueue      = "orders"
	// An operation that takes longer is stuck.
	operationMax = 60 * time.Second
)

// What the handler offers: an answer at once, and the result of a workflow.
var (
	quote = nexus.NewSyncOperation("quote", func(_ context.Context, amount int, _ nexus.StartOperationOptions) (int, error) {
		if amount < 0 {
			return 0, nexus.NewOperationFailedErrorf("no quote for %d", amount)
		}
		return amount + 19, nil
	})
	charge = temporalnexus.NewWorkflowRunOperation("charge", charged,
		func(_ context.Context, price int, options nexus.StartOperationOptions) (client.StartWorkflowOptions, error) {
			return client.StartWorkflowOptions{ID: "charge-" + options.RequestID}, nil
		})
)

// charged ends at once, or when it is canceled if the price is 0.
func charged(ctx workflow.Context, price int) (int, error) {
	if price == 0 {
		ctx.Done().Receive(ctx, nil)
		return 0, ctx.Err()
	}
	return price, nil
}

// ordered calls an operation that is answered at once, and one that is a workflow.
func ordered(ctx workflow.Context, amount int) (int, error) {
	payments := workflow.NewNexusClient(paymentsEndpoint, paymentsService)
	var price, paid int
	if err := payments.ExecuteOperation(ctx, quote, amount, workflow.NexusOperationOptions{}).Get(ctx, &price); err != nil {
		return 0, err
	}
	err := payments.ExecuteOperation(ctx, charge, price, workflow.NexusOperationOptions{}).Get(ctx, &paid)
	return paid, err
}

// revoked cancels an operation once it is started, and returns how it ended.
func revoked(ctx workflow.Context) (string, error) {
	payments := workflow.NewNexusClient(paymentsEndpoint, paymentsService)
	inner, cancel := workflow.WithCancel(ctx)
	operation := payments.ExecuteOperation(inner, charge, 0, workflow.NexusOperationOptions{})
	var started workflow.NexusOperationExecution
	if err := operation.GetNexusOperationExecution().Get(ctx, &started); err != nil {
		return "", err
	}
	cancel()
	err := operation.Get(ctx, nil)
	var canceled *temporal.CanceledError
	if errors.As(err, &canceled) && started.OperationToken != "" {
		return "canceled", nil
	}
	return "", err
}

// Workflows of one namespace call operations that the workers of another one handle.
func TestNexusOperations(t *testing.T) {
	s := start(t)
	at := []string{"--address", s.address, "--tls-ca-path", s.file("ca.pem")}
	segno(t, nil, append([]string{"namespace", "create", financeNamespace}, at...)...)
	segno(t, nil, append([]string{"nexus", "endpoint", "create", "--name", paymentsEndpoint, "--target-namespace", financeNamespace,
		"--target-task-queue", paymentsQueue}, at...)...)
	ctx, cancel := context.WithTimeout(context.Background(), operationMax)
	defer cancel()

	options := client.Options{HostPort: s.address, Namespace: financeNamespace}
	options.ConnectionOptions.TLS = trusting(t, s.certificates)
	finance, err := client.DialContext(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(finance.Close)
	handlers := worker.New(finance, paymentsQueue, worker.Options{})
	service := nexus.NewService(paymentsService)
	service.MustRegister(quote, charge)
	handlers.RegisterNexusService(service)
	handlers.RegisterWorkflow(charged)

	c := connect(t, s, trusting(t, s.certificates), "")
	callers := worker.New(c, ordersQueue, worker.Options{})
	callers.RegisterWorkflow(ordered)
	callers.RegisterWorkflow(revoked)
	for _, each := range []worker.Worker{handlers, callers} {
		if err := each.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(each.Stop)
	}

	execute := func(workflow any, input ...any) client.WorkflowRun {
		run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: ordersQueue}, workflow, input...)
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	t.Run("completes", func(t *testing.T) {
		var paid int
		if err := execute(ordered, 100).Get(ctx, &paid); err != nil || paid != 119 {
			t.Fatalf("the result is %d, %v", paid, err)
		}
	})
	t.Run("fails", func(t *testing.T) {
		err := execute(ordered, -1).Get(ctx, nil)
		var failed *temporal.NexusOperationError
		var cause *temporal.ApplicationError
		if !errors.As(err, &failed) || !errors.As(failed, &cause) || cause.Message() != "no quote for -1" {
			t.Fatalf("the operation ended with %v", err)
		}
		if failed.Endpoint != paymentsEndpoint || failed.Service != paymentsService || failed.Operation != "quote" {
			t.Errorf("the failure names %s, %s, %s", failed.Endpoint, failed.Service, failed.Operation)
		}
	})
	t.Run("is canceled", func(t *testing.T) {
		var how string
		if err := execute(revoked).Get(ctx, &how); err != nil || how != "canceled" {
			t.Fatalf("the operation ended with %q, %v", how, err)
		}
	})
}
