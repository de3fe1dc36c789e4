package recipes;

import io.temporal.activity.ActivityInterface;
import io.temporal.activity.ActivityOptions;
import io.temporal.client.WorkflowClient;
import io.temporal.client.WorkflowFailedException;
import io.temporal.failure.ApplicationFailure;
import io.temporal.failure.TemporalFailure;
import io.temporal.worker.Worker;
import io.temporal.workflow.Workflow;
import io.temporal.workflow.WorkflowInterface;
import io.temporal.workflow.WorkflowMethod;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;

/** Three bookings that belong together: if one fails, those before it are undone, the last one first. */
class Saga {
  @ActivityInterface
  public interface Activities {
    void book(String what);

    void cancelBooking(String what);
  }

  public static class ActivitiesImpl implements Activities {
    public void book(String what) {
      if (what.equals("tour")) {
        throw ApplicationFailure.newNonRetryableFailure("the tour is sold out", "SoldOut");
      }
      System.out.println("booked " + what);
    }

    public void cancelBooking(String what) {
      System.out.println("cancelled " + what); // Must succeed for what was never booked, too.
    }
  }

  @WorkflowInterface
  public interface Trip {
    @WorkflowMethod
    void run(List<String> parts);
  }

  public static class TripImpl implements Trip {
    private final Activities activities =
        Workflow.newActivityStub(
            Activities.class,
            ActivityOptions.newBuilder().setStartToCloseTimeout(Duration.ofSeconds(30)).build());

    public void run(List<String> parts) {
      Deque<String> undo = new ArrayDeque<>();
      try {
        for (String part : parts) {
          undo.push(part); // Before the booking: it may take place although its answer is lost.
          activities.book(part);
        }
      } catch (TemporalFailure failure) {
        // Detached: also when the workflow is cancelled.
        Workflow.newDetachedCancellationScope(() -> undo.forEach(activities::cancelBooking)).run();
        throw failure;
      }
    }
  }

  static void register(Worker worker) {
    worker.registerWorkflowImplementationTypes(TripImpl.class);
    worker.registerActivitiesImplementations(new ActivitiesImpl());
  }

  static void demo(WorkflowClient client) {
    try {
      client.newWorkflowStub(Trip.class, Run.options("trip-1")).run(List.of("flight", "hotel", "tour"));
    } catch (WorkflowFailedException failed) {
      ApplicationFailure cause = (ApplicationFailure) failed.getCause().getCause();
      System.out.println("failed: " + cause.getOriginalMessage());
    }
  }
}
