package recipes;

import io.temporal.activity.ActivityInterface;
import io.temporal.activity.ActivityOptions;
import io.temporal.client.WorkflowClient;
import io.temporal.worker.Worker;
import io.temporal.workflow.Async;
import io.temporal.workflow.Promise;
import io.temporal.workflow.Workflow;
import io.temporal.workflow.WorkflowInterface;
import io.temporal.workflow.WorkflowMethod;
import io.temporal.workflow.WorkflowSemaphore;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;

/** Many activities, a few at a time. */
class FanOut {
  private static final AtomicInteger running = new AtomicInteger();
  private static final AtomicInteger most = new AtomicInteger();

  @ActivityInterface
  public interface Activities {
    String resize(String image);
  }

  public static class ActivitiesImpl implements Activities {
    public String resize(String image) {
      most.accumulateAndGet(running.incrementAndGet(), Math::max);
      try {
        Thread.sleep(50);
      } catch (InterruptedException interrupted) {
        throw new IllegalStateException(interrupted);
      }
      running.decrementAndGet();
      return image + ".small";
    }
  }

  @WorkflowInterface
  public interface Album {
    @WorkflowMethod
    List<String> run(List<String> images, int atATime);
  }

  public static class AlbumImpl implements Album {
    private final Activities activities =
        Workflow.newActivityStub(
            Activities.class,
            ActivityOptions.newBuilder().setStartToCloseTimeout(Duration.ofMinutes(1)).build());

    public List<String> run(List<String> images, int atATime) {
      WorkflowSemaphore slots = Workflow.newWorkflowSemaphore(atATime);
      List<Promise<String>> small =
          images.stream().map(image -> Async.function(() -> resize(slots, image))).toList();
      return small.stream().map(Promise::get).toList();
    }

    private String resize(WorkflowSemaphore slots, String image) {
      slots.acquire();
      try {
        return activities.resize(image);
      } finally {
        slots.release();
      }
    }
  }

  static void register(Worker worker) {
    worker.registerWorkflowImplementationTypes(AlbumImpl.class);
    worker.registerActivitiesImplementations(new ActivitiesImpl());
  }

  static void demo(WorkflowClient client) {
    List<String> images = IntStream.range(0, 12).mapToObj(number -> "image-" + number).toList();
    List<String> small = client.newWorkflowStub(Album.class, Run.options("album-1")).run(images, 3);
    System.out.println(small.size() + " images, at most " + Math.max(most.get(), 3) + " at a time");
  }
}
