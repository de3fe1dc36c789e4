package recipes;

import io.temporal.activity.ActivityInterface;
import io.temporal.activity.ActivityOptions;
import io.temporal.api.enums.v1.WorkflowIdConflictPolicy;
import io.temporal.api.enums.v1.WorkflowIdReusePolicy;
import io.temporal.client.WorkflowClient;
import io.temporal.client.WorkflowExecutionAlreadyStarted;
import io.temporal.client.WorkflowOptions;
import io.temporal.worker.Worker;
import io.temporal.workflow.Workflow;
import io.temporal.workflow.WorkflowInterface;
import io.temporal.workflow.WorkflowMethod;
import java.time.Duration;

/** A webhook whose sender repeats events: each is handled once. */
class Webhook {
  public static class Event {
    public String id;
    public int amount;
  }

  @ActivityInterface
  public interface Activities {
    void bookPayment(Event event);
  }

  public static class ActivitiesImpl implements Activities {
    public void bookPayment(Event event) {
      System.out.println("booked " + event.amount);
    }
  }

  @WorkflowInterface
  public interface Payment {
    @WorkflowMethod
    void run(Event event);
  }

  public static class PaymentImpl implements Payment {
    public void run(Event event) {
      ActivityOptions options =
          ActivityOptions.newBuilder().setStartToCloseTimeout(Duration.ofSeconds(30)).build();
      Workflow.newActivityStub(Activities.class, options).bookPayment(event);
    }
  }

  /** The handler of {@code POST /webhook}; gives the HTTP status. After an exception the sender repeats the event. */
  static int receive(WorkflowClient client, Event event) {
    WorkflowOptions options =
        WorkflowOptions.newBuilder()
            .setWorkflowId("payment-" + event.id) // Chosen by the sender, the same in every repeat.
            .setTaskQueue("recipes")
            .setWorkflowIdConflictPolicy( // while the workflow runs
                WorkflowIdConflictPolicy.WORKFLOW_ID_CONFLICT_POLICY_FAIL)
            .setWorkflowIdReusePolicy( // after its end
                WorkflowIdReusePolicy.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE)
            .build();
    try {
      WorkflowClient.start(client.newWorkflowStub(Payment.class, options)::run, event);
      return 202;
    } catch (WorkflowExecutionAlreadyStarted duplicate) {
      return 200;
    }
  }

  static void register(Worker worker) {
    worker.registerWorkflowImplementationTypes(PaymentImpl.class);
    worker.registerActivitiesImplementations(new ActivitiesImpl());
  }

  static void demo(WorkflowClient client) {
    Event event = new Event();
    event.id = "evt-1";
    event.amount = 450;
    int first = receive(client, event);
    int second = receive(client, event);
    client.newUntypedWorkflowStub("payment-evt-1").getResult(Void.class);
    System.out.println(first + " " + second + " " + receive(client, event));
  }
}
