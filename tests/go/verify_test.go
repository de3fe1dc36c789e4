package security

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

const (
	verifiedQueue  = "verified"
	candidateQueue = "verified-candidate"
	verifiedRuns   = 3
)

// steps executes activities in an order, then waits for a signal.
func steps(names ...string) func(workflow.Context) error {
	return func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 10 * time.Second})
		for _, name := range names {
			if err := workflow.ExecuteActivity(ctx, name).Get(ctx, nil); err != nil {
				return err
			}
		}
		workflow.GetSignalChannel(ctx, "never").Receive(ctx, nil)
		return nil
	}
}

// verification is what `segno workflow verify -o json` prints.
type verification struct {
	Total, Replayed, Failed, Unanswered int `json:",string"`
	Failures                            []struct {
		WorkflowID string `json:"workflowId"`
		Failure    struct {
			Cause   string
			Message string
			EventID int `json:"eventId,string"`
		}
	}
}

// verify lets workers with other code replay the open runs.
func verify(t *testing.T, s *server) (int, verification) {
	t.Helper()
	words := []string{"workflow", "verify", "--task-queue", verifiedQueue, "--on", candidateQueue, "-o", "json"}
	words = append(words, "--address", s.address, "--tls-ca-path", s.file("ca.pem"))
	var output, problems bytes.Buffer
	command := exec.Command(binary(t), words...)
	command.Stdout, command.Stderr = &output, &problems
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var found verification
	if err := json.Unmarshal(output.Bytes(), &found); err != nil {
		t.Fatalf("%v: %s: %s", err, output.String(), problems.String())
	}
	return command.ProcessState.ExitCode(), found
}

// served runs a worker whose workflow executes these activities.
func served(t *testing.T, c client.Client, queue string, names ...string) worker.Worker {
	t.Helper()
	w := worker.New(c, queue, worker.Options{})
	w.RegisterWorkflowWithOptions(steps(names...), workflow.RegisterOptions{Name: "Verified"})
	for _, name := range []string{"one", "two"} {
		w.RegisterActivityWithOptions(func() error { return nil }, activity.RegisterOptions{Name: name})
	}
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	return w
}

// This SDK compares nothing with the history for a query, so its workers are tried with a workflow task, which changes nothing.
func TestACandidateReplaysOpenRuns(t *testing.T) {
	s := start(t)
	c := connect(t, s, trusting(t, s.certificates), "")
	w := served(t, c, verifiedQueue, "one", "two")
	t.Cleanup(w.Stop)
	ids, lengths := []string{}, map[string]int64{}
	for number := range verifiedRuns {
		id := fmt.Sprintf("verified-%d", number)
		options := client.StartWorkflowOptions{ID: id, TaskQueue: verifiedQueue}
		if _, err := c.ExecuteWorkflow(context.Background(), options, "Verified"); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	for _, id := range ids {
		lengths[id] = settled(t, c, id)
	}
	tried := func(failed int, names ...string) verification {
		candidate := served(t, c, candidateQueue, names...)
		defer candidate.Stop()
		code, found := verify(t, s)
		if (code == 0) != (failed == 0) || found.Failed != failed || found.Replayed != verifiedRuns-failed {
			t.Fatalf("%v: exit code %d, %+v", names, code, found)
		}
		return found
	}
	tried(0, "one", "two")
	for event, names := range map[int][]string{5: {"two", "one"}, 11: {"one", "one"}} {
		for _, failed := range tried(verifiedRuns, names...).Failures {
			if failed.Failure.EventID != event || failed.Failure.Cause != "NON_DETERMINISTIC_ERROR" {
				t.Errorf("%v: %+v", names, failed)
			}
		}
	}
	for _, id := range ids {
		if length := settled(t, c, id); length != lengths[id] {
			t.Errorf("%s has %d events instead of %d", id, length, lengths[id])
		}
	}
}

// settled waits until a run waits for its signal, and returns how many events it has.
func settled(t *testing.T, c client.Client, id string) int64 {
	t.Helper()
	const events = 16
	deadline := time.Now().Add(30 * time.Second)
	for {
		described, err := c.DescribeWorkflowExecution(context.Background(), id, "")
		if err == nil && described.WorkflowExecutionInfo.HistoryLength >= events {
			return described.WorkflowExecutionInfo.HistoryLength
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not wait: %v, %v", id, described, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
