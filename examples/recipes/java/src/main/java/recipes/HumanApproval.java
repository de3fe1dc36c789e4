package recipes;

import io.temporal.activity.ActivityInterface;
import io.temporal.activity.ActivityOptions;
import io.temporal.client.WorkflowClient;
import io.temporal.worker.Worker;
import io.temporal.workflow.UpdateMethod;
import io.temporal.workflow.UpdateValidatorMethod;
import io.temporal.workflow.Workflow;
import io.temporal.workflow.WorkflowInterface;
import io.temporal.workflow.WorkflowMethod;
import java.time.Duration;

/** A person decides, or the time runs out. */
class HumanApproval {
  @ActivityInterface
  public interface Activities {
    void ask(String document);
  }

  public static class ActivitiesImpl implements Activities {
    public void ask(String document) {
      // Send the approver a link to the page with the two buttons.
    }
  }

  @WorkflowInterface
  public interface Approval {
    @WorkflowMethod
    String run(String document, Duration patience);

    @UpdateMethod
    String decide(String by, boolean approved);

    @UpdateValidatorMethod(updateName = "decide")
    void check(String by, boolean approved);
  }

  public static class ApprovalImpl implements Approval {
    private final Activities activities =
        Workflow.newActivityStub(
            Activities.class,
            ActivityOptions.newBuilder().setStartToCloseTimeout(Duration.ofSeconds(30)).build());
    private String decision;

    public String run(String document, Duration patience) {
      activities.ask(document);
      return Workflow.await(patience, () -> decision != null) ? decision : "no answer";
    }

    public String decide(String by, boolean approved) {
      decision = (approved ? "approved by " : "rejected by ") + by;
      return decision;
    }

    public void check(String by, boolean approved) {
      if (decision != null) throw new IllegalStateException("already " + decision);
    }
  }

  static void register(Worker worker) {
    worker.registerWorkflowImplementationTypes(ApprovalImpl.class);
    worker.registerActivitiesImplementations(new ActivitiesImpl());
  }

  static void demo(WorkflowClient client) {
    Approval budget = client.newWorkflowStub(Approval.class, Run.options("approval-budget"));
    WorkflowClient.start(budget::run, "budget", Duration.ofDays(7));
    System.out.println(budget.decide("Ada", true));
    Approval travel = client.newWorkflowStub(Approval.class, Run.options("approval-travel"));
    System.out.println(travel.run("travel", Duration.ofSeconds(1)));
  }
}
