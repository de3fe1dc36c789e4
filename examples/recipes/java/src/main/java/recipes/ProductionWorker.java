package recipes;

import com.sun.net.httpserver.HttpServer;
import io.temporal.activity.Activity;
import io.temporal.activity.ActivityExecutionContext;
import io.temporal.activity.ActivityInterface;
import io.temporal.activity.ActivityOptions;
import io.temporal.client.ActivityWorkerShutdownException;
import io.temporal.client.WorkflowClient;
import io.temporal.client.WorkflowOptions;
import io.temporal.client.WorkflowStub;
import io.temporal.worker.Worker;
import io.temporal.worker.WorkerFactory;
import io.temporal.workflow.Workflow;
import io.temporal.workflow.WorkflowInterface;
import io.temporal.workflow.WorkflowMethod;
import java.io.IOException;
import java.net.HttpURLConnection;
import java.net.InetSocketAddress;
import java.net.URI;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/** A worker for production: it says whether it is healthy, and ends what it has begun before it stops. */
class ProductionWorker {
  @ActivityInterface
  public interface Activities {
    String importRows(int count);
  }

  public static class ActivitiesImpl implements Activities {
    public String importRows(int count) {
      ActivityExecutionContext context = Activity.getExecutionContext();
      for (int row = 0; row < count; row++) {
        heartbeat(context, row); // Without one for 10 s the attempt times out, and the next one begins.
        pause(300);
      }
      return count + " rows in attempt " + context.getInfo().getAttempt();
    }
  }

  static void heartbeat(ActivityExecutionContext context, int row) {
    try {
      context.heartbeat(row);
    } catch (ActivityWorkerShutdownException stopping) {
      // The worker waits for this activity: go on. Without the catch the attempt would fail here.
    }
  }

  static void pause(int milliseconds) {
    try {
      Thread.sleep(milliseconds);
    } catch (InterruptedException interrupted) {
      throw new IllegalStateException(interrupted);
    }
  }

  @WorkflowInterface
  public interface Import {
    @WorkflowMethod
    String run(int count);
  }

  public static class ImportImpl implements Import {
    private final Activities activities =
        Workflow.newActivityStub(
            Activities.class,
            ActivityOptions.newBuilder()
                .setStartToCloseTimeout(Duration.ofHours(1))
                .setHeartbeatTimeout(Duration.ofSeconds(10))
                .build());

    public String run(int count) {
      return activities.importRows(count);
    }
  }

  static WorkerFactory start(WorkflowClient client) {
    WorkerFactory factory = WorkerFactory.newInstance(client);
    Worker worker = factory.newWorker("imports");
    worker.registerWorkflowImplementationTypes(ImportImpl.class);
    worker.registerActivitiesImplementations(new ActivitiesImpl());
    factory.start();
    return factory;
  }

  /** A worker that runs until SIGTERM or SIGINT. */
  static void work(WorkflowClient client, int healthPort) throws IOException {
    WorkerFactory factory = start(client);
    HttpServer health = health(factory, healthPort);
    Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(factory, health)));
  }

  static HttpServer health(WorkerFactory factory, int port) throws IOException {
    HttpServer health = HttpServer.create(new InetSocketAddress(port), 0);
    health.createContext(
        "/",
        exchange -> {
          exchange.sendResponseHeaders(factory.isShutdown() ? 503 : 200, -1);
          exchange.close();
        });
    health.start();
    return health;
  }

  /** Gives activities under way 30 s. */
  static void stop(WorkerFactory factory, HttpServer health) {
    System.out.println("stopping");
    factory.shutdown();
    factory.awaitTermination(30, TimeUnit.SECONDS);
    health.stop(0);
    System.out.println("stopped");
  }

  static void demo(WorkflowClient client) throws Exception {
    WorkerFactory factory = start(client);
    HttpServer health = health(factory, 18084);
    WorkflowOptions options =
        WorkflowOptions.newBuilder().setWorkflowId("import-1").setTaskQueue("imports").build();
    Import workflow = client.newWorkflowStub(Import.class, options);
    WorkflowClient.start(workflow::run, 3);
    WorkflowStub run = WorkflowStub.fromTyped(workflow);
    while (run.describe().getRawDescription().getPendingActivitiesCount() == 0) Thread.sleep(100);
    var probe = (HttpURLConnection) URI.create("http://127.0.0.1:18084").toURL().openConnection();
    System.out.println("health: " + probe.getResponseCode());
    stop(factory, health); // In production the shutdown hook does this: the process ends with SIGTERM.
    WorkerFactory next = start(client);
    System.out.println(run.getResult(String.class));
    next.shutdownNow();
  }
}
