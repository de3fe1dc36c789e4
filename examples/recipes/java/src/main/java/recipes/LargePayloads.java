package recipes;

import io.temporal.activity.ActivityInterface;
import io.temporal.activity.ActivityOptions;
import io.temporal.client.WorkflowClient;
import io.temporal.worker.Worker;
import io.temporal.workflow.Workflow;
import io.temporal.workflow.WorkflowInterface;
import io.temporal.workflow.WorkflowMethod;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;

/** Data that is too large for history: workflows pass the name of a file, activities read and write it. */
class LargePayloads {
  // Use an object store that all workers reach, such as S3.
  private static final Path STORE = Path.of(System.getProperty("java.io.tmpdir"));

  @ActivityInterface
  public interface Activities {
    String download(String workflowId) throws IOException;

    String measure(String key) throws IOException;

    void remove(String key) throws IOException;
  }

  public static class ActivitiesImpl implements Activities {
    public String download(String workflowId) throws IOException {
      String key = workflowId + ".bin"; // The same in every attempt: a repeat overwrites the file.
      Files.writeString(STORE.resolve(key), "x".repeat(5_000_000));
      return key;
    }

    public String measure(String key) throws IOException {
      return Files.size(STORE.resolve(key)) + " bytes";
    }

    public void remove(String key) throws IOException {
      Files.deleteIfExists(STORE.resolve(key));
    }
  }

  @WorkflowInterface
  public interface Digest {
    @WorkflowMethod
    String run() throws Exception;
  }

  public static class DigestImpl implements Digest {
    private final Activities activities =
        Workflow.newActivityStub(
            Activities.class,
            ActivityOptions.newBuilder().setStartToCloseTimeout(Duration.ofMinutes(1)).build());

    public String run() throws Exception {
      String key = activities.download(Workflow.getInfo().getWorkflowId());
      try {
        return activities.measure(key);
      } finally {
        Workflow.newDetachedCancellationScope(() -> remove(key)).run();
      }
    }

    private void remove(String key) {
      try {
        activities.remove(key);
      } catch (IOException failed) {
        throw Workflow.wrap(failed);
      }
    }
  }

  static void register(Worker worker) {
    worker.registerWorkflowImplementationTypes(DigestImpl.class);
    worker.registerActivitiesImplementations(new ActivitiesImpl());
  }

  static void demo(WorkflowClient client) throws Exception {
    System.out.println(client.newWorkflowStub(Digest.class, Run.options("digest-java")).run());
  }
}
