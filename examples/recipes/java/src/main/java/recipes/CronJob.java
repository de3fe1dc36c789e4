package recipes;

import io.temporal.activity.ActivityInterface;
import io.temporal.activity.ActivityOptions;
import io.temporal.api.enums.v1.ScheduleOverlapPolicy;
import io.temporal.client.WorkflowClient;
import io.temporal.client.schedules.Schedule;
import io.temporal.client.schedules.ScheduleActionExecutionStartWorkflow;
import io.temporal.client.schedules.ScheduleActionResult;
import io.temporal.client.schedules.ScheduleActionStartWorkflow;
import io.temporal.client.schedules.ScheduleClient;
import io.temporal.client.schedules.ScheduleHandle;
import io.temporal.client.schedules.ScheduleOptions;
import io.temporal.client.schedules.SchedulePolicy;
import io.temporal.client.schedules.ScheduleSpec;
import io.temporal.worker.Worker;
import io.temporal.workflow.Workflow;
import io.temporal.workflow.WorkflowInterface;
import io.temporal.workflow.WorkflowMethod;
import java.time.Duration;
import java.util.List;

/** A report at six o'clock on working days. */
class CronJob {
  @ActivityInterface
  public interface Activities {
    int countOrders(String region);
  }

  public static class ActivitiesImpl implements Activities {
    public int countOrders(String region) {
      return 42;
    }
  }

  @WorkflowInterface
  public interface Report {
    @WorkflowMethod
    String run(String region);
  }

  public static class ReportImpl implements Report {
    private final Activities activities =
        Workflow.newActivityStub(
            Activities.class,
            ActivityOptions.newBuilder().setStartToCloseTimeout(Duration.ofMinutes(5)).build());

    public String run(String region) {
      return region + ": " + activities.countOrders(region) + " orders";
    }
  }

  static void register(Worker worker) {
    worker.registerWorkflowImplementationTypes(ReportImpl.class);
    worker.registerActivitiesImplementations(new ActivitiesImpl());
  }

  static void demo(WorkflowClient client) throws InterruptedException {
    Schedule schedule =
        Schedule.newBuilder()
            .setAction(
                ScheduleActionStartWorkflow.newBuilder()
                    .setWorkflowType(Report.class)
                    .setArguments("north")
                    .setOptions(Run.options("report"))
                    .build())
            .setSpec(
                ScheduleSpec.newBuilder()
                    .setCronExpressions(List.of("0 6 * * MON-FRI"))
                    .setTimeZoneName("Europe/Berlin")
                    .build())
            .setPolicy(
                SchedulePolicy.newBuilder()
                    // A report that is still running skips the next one.
                    .setOverlap(ScheduleOverlapPolicy.SCHEDULE_OVERLAP_POLICY_SKIP)
                    .setCatchupWindow(Duration.ofHours(1))
                    .build())
            .build();
    ScheduleHandle handle =
        ScheduleClient.newInstance(client.getWorkflowServiceStubs())
            .createSchedule("daily-report", schedule, ScheduleOptions.newBuilder().build());
    handle.trigger(); // To see it work before tomorrow morning.
    List<ScheduleActionResult> started;
    while ((started = handle.describe().getInfo().getRecentActions()).isEmpty()) Thread.sleep(100);
    var action = (ScheduleActionExecutionStartWorkflow) started.get(0).getAction();
    System.out.println(client.newUntypedWorkflowStub(action.getWorkflowId()).getResult(String.class));
    handle.delete();
  }
}
