package security

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

const (
	queriedQueue = "queried"
	// Runs, unless SEGNO_QUERIED_RUNS says otherwise.
	queriedRuns = 300
	// Runs that are open at a time.
	queriedTogether = 16
	// A run that takes longer is stuck.
	queriedMax = 60 * time.Second
)

// signalled is the child: it waits for a signal.
func signalled(ctx workflow.Context) (string, error) {
	var word string
	workflow.GetSignalChannel(ctx, "word").Receive(ctx, &word)
	return word, nil
}

// queried answers a query, starts a child and signals it.
func queried(ctx workflow.Context) (string, error) {
	if err := workflow.SetQueryHandler(ctx, "state", func() (string, error) { return "here", nil }); err != nil {
		return "", err
	}
	child := workflow.ExecuteChildWorkflow(ctx, signalled)
	if err := child.SignalChildWorkflow(ctx, "word", "done").Get(ctx, nil); err != nil {
		return "", err
	}
	var word string
	err := child.Get(ctx, &word)
	return word, err
}

// A query that meets a run between two of its workflow tasks leaves the worker's cached workflow as it is. A query task of a
// sticky queue with events made this SDK apply them as a replay, and the run never ended.
func TestQueriesDoNotDisturbRuns(t *testing.T) {
	s := start(t)
	c := connect(t, s, trusting(t, s.certificates), "")
	w := worker.New(c, queriedQueue, worker.Options{})
	w.RegisterWorkflow(signalled)
	w.RegisterWorkflow(queried)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	runs := queriedRuns
	if text := os.Getenv("SEGNO_QUERIED_RUNS"); text != "" {
		var err error
		if runs, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	numbers := make(chan int)
	var running sync.WaitGroup
	for range queriedTogether {
		running.Go(func() {
			for number := range numbers {
				if err := queryOne(c, fmt.Sprintf("queried-%d", number)); err != nil {
					t.Errorf("run %d: %v", number, err)
				}
			}
		})
	}
	for number := range runs {
		numbers <- number
	}
	close(numbers)
	running.Wait()
}

// queryOne starts a run, queries it at once, and waits for its result.
func queryOne(c client.Client, id string) error {
	ctx, cancel := context.WithTimeout(context.Background(), queriedMax)
	defer cancel()
	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id, TaskQueue: queriedQueue}, queried)
	if err != nil {
		return err
	}
	value, err := c.QueryWorkflow(ctx, id, run.GetRunID(), "state")
	if err != nil {
		return fmt.Errorf("query: %w", err)
	}
	var state, word string
	if err := value.Get(&state); err != nil || state != "here" {
		return fmt.Errorf("the query answered %q, %v", state, err)
	}
	if err := run.Get(ctx, &word); err != nil || word != "done" {
		return fmt.Errorf("stuck: the result is %q, %v", word, err)
	}
	return nil
}
