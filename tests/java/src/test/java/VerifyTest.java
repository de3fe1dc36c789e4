import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.netty.shaded.io.grpc.netty.GrpcSslContexts;
import io.temporal.activity.ActivityOptions;
import io.temporal.activity.DynamicActivity;
import io.temporal.api.common.v1.WorkflowExecution;
import io.temporal.api.workflowservice.v1.DescribeWorkflowExecutionRequest;
import io.temporal.client.WorkflowClient;
import io.temporal.client.WorkflowOptions;
import io.temporal.common.converter.EncodedValues;
import io.temporal.serviceclient.WorkflowServiceStubs;
import io.temporal.serviceclient.WorkflowServiceStubsOptions;
import io.temporal.worker.Worker;
import io.temporal.worker.WorkerFactory;
import io.temporal.workflow.ActivityStub;
import io.temporal.workflow.Workflow;
import io.temporal.workflow.WorkflowInterface;
import io.temporal.workflow.WorkflowMethod;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Workers with other code replay open runs before they get their tasks. */
@Timeout(120)
class VerifyTest {
  private static final String QUEUE = "verified";
  private static final String CANDIDATE = "verified-candidate";
  private static final String ID = "verified-java";
  /** Events of a run that waits after its two activities. */
  private static final long EVENTS = 16;

  @WorkflowInterface
  public interface Verified {
    @WorkflowMethod(name = "Verified")
    void run();
  }

  private static void steps(String... names) {
    ActivityOptions options = ActivityOptions.newBuilder().setStartToCloseTimeout(Duration.ofSeconds(10)).build();
    ActivityStub activities = Workflow.newUntypedActivityStub(options);
    for (String name : names) {
      activities.execute(name, String.class);
    }
    Workflow.await(() -> false);
  }

  public static class Deployed implements Verified {
    @Override
    public void run() {
      steps("one", "two");
    }
  }

  public static class Reordered implements Verified {
    @Override
    public void run() {
      steps("two", "one");
    }
  }

  public static class Any implements DynamicActivity {
    @Override
    public Object execute(EncodedValues arguments) {
      return "done";
    }
  }

  @TempDir Path directory;

  private static WorkerFactory serve(WorkflowClient client, String queue, Class<?> code) {
    WorkerFactory factory = WorkerFactory.newInstance(client);
    Worker worker = factory.newWorker(queue);
    worker.registerWorkflowImplementationTypes(code);
    worker.registerActivitiesImplementations(new Any());
    factory.start();
    return factory;
  }

  private static void end(WorkerFactory factory) {
    factory.shutdownNow();
    factory.awaitTermination(10, TimeUnit.SECONDS);
  }

  private static long events(WorkflowServiceStubs service) {
    DescribeWorkflowExecutionRequest request =
        DescribeWorkflowExecutionRequest.newBuilder()
            .setNamespace("default")
            .setExecution(WorkflowExecution.newBuilder().setWorkflowId(ID))
            .build();
    return service.blockingStub().describeWorkflowExecution(request).getWorkflowExecutionInfo().getHistoryLength();
  }

  @Test
  void aCandidateReplaysOpenRuns() throws Exception {
    try (Server server = new Server(directory)) {
      WorkflowServiceStubsOptions options =
          WorkflowServiceStubsOptions.newBuilder()
              .setTarget(server.address)
              .setSslContext(GrpcSslContexts.forClient().trustManager(server.file("ca.pem").toFile()).build())
              .build();
      WorkflowServiceStubs service = WorkflowServiceStubs.newServiceStubs(options);
      WorkflowClient client = WorkflowClient.newInstance(service);
      WorkerFactory deployed = serve(client, QUEUE, Deployed.class);
      try {
        WorkflowOptions start = WorkflowOptions.newBuilder().setWorkflowId(ID).setTaskQueue(QUEUE).build();
        WorkflowClient.start(client.newWorkflowStub(Verified.class, start)::run);
        while (events(service) < EVENTS) {
          Thread.sleep(50);
        }
        String[] verify = {"workflow", "verify", "--task-queue", QUEUE, "--on", CANDIDATE};
        WorkerFactory same = serve(client, CANDIDATE, Deployed.class);
        Server.Ended passed = server.ended(verify);
        end(same);
        assertEquals(0, passed.code(), passed.text());
        assertTrue(passed.text().contains("1 run: 1 replay, 0 do not, 0 no answer"), passed.text());
        WorkerFactory reordered = serve(client, CANDIDATE, Reordered.class);
        Server.Ended failed = server.ended(verify);
        end(reordered);
        assertEquals(1, failed.code(), failed.text());
        assertTrue(failed.text().contains("1 run: 0 replay, 1 do not, 0 no answer"), failed.text());
        assertTrue(failed.text().contains("5 ActivityTaskScheduled"), failed.text());
        assertEquals(EVENTS, events(service));
      } finally {
        end(deployed);
        service.shutdownNow();
        assertTrue(service.awaitTermination(10, TimeUnit.SECONDS));
      }
    }
  }
}
