package recipes;

import io.temporal.activity.Activity;
import io.temporal.activity.ActivityInterface;
import io.temporal.activity.ActivityOptions;
import io.temporal.client.WorkflowClient;
import io.temporal.common.RetryOptions;
import io.temporal.failure.ApplicationFailure;
import io.temporal.worker.Worker;
import io.temporal.workflow.Workflow;
import io.temporal.workflow.WorkflowInterface;
import io.temporal.workflow.WorkflowMethod;
import java.time.Duration;

/** Waits for a job of another company, whose API can only be asked. */
class Polling {
  @ActivityInterface
  public interface Activities {
    String fetchExport(String job);
  }

  public static class ActivitiesImpl implements Activities {
    public String fetchExport(String job) {
      int attempt = Activity.getExecutionContext().getInfo().getAttempt();
      if (attempt < 3) { // Ask the API here; below is its answer "not yet".
        throw ApplicationFailure.newFailure(job + " is not ready", "NotReady");
      }
      return job + ".csv after " + attempt + " attempts";
    }
  }

  @WorkflowInterface
  public interface FetchFile {
    @WorkflowMethod
    String run(String job, Duration every);
  }

  public static class FetchFileImpl implements FetchFile {
    public String run(String job, Duration every) {
      ActivityOptions options =
          ActivityOptions.newBuilder()
              .setStartToCloseTimeout(Duration.ofSeconds(20)) // one question
              .setScheduleToCloseTimeout(Duration.ofDays(2)) // all of them
              .setRetryOptions(
                  RetryOptions.newBuilder().setInitialInterval(every).setBackoffCoefficient(1).build())
              .build();
      return Workflow.newActivityStub(Activities.class, options).fetchExport(job);
    }
  }

  static void register(Worker worker) {
    worker.registerWorkflowImplementationTypes(FetchFileImpl.class);
    worker.registerActivitiesImplementations(new ActivitiesImpl());
  }

  static void demo(WorkflowClient client) {
    FetchFile fetch = client.newWorkflowStub(FetchFile.class, Run.options("export-7"));
    System.out.println(fetch.run("export-7", Duration.ofSeconds(1)));
  }
}
