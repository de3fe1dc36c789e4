package recipes;

import io.temporal.activity.ActivityInterface;
import io.temporal.activity.ActivityOptions;
import io.temporal.client.WorkflowClient;
import io.temporal.client.WorkflowOptions;
import io.temporal.client.WorkflowStub;
import io.temporal.worker.Worker;
import io.temporal.worker.WorkerFactory;
import io.temporal.workflow.UpdateMethod;
import io.temporal.workflow.Workflow;
import io.temporal.workflow.WorkflowInterface;
import io.temporal.workflow.WorkflowMethod;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** New code for a workflow while runs of the old code are open. */
class Versioning {
  @ActivityInterface
  public interface Activities {
    String step(String name);
  }

  public static class ActivitiesImpl implements Activities {
    public String step(String name) {
      return name;
    }
  }

  @WorkflowInterface
  public interface Order {
    @WorkflowMethod
    List<String> run();

    @UpdateMethod
    void pay();
  }

  public static class OldOrder implements Order {
    final Activities activities =
        Workflow.newActivityStub(
            Activities.class,
            ActivityOptions.newBuilder().setStartToCloseTimeout(Duration.ofSeconds(10)).build());
    final List<String> steps = new ArrayList<>();
    boolean paid;

    public List<String> run() {
      steps.add(activities.step("reserved"));
      Workflow.await(() -> paid);
      steps.add(activities.step("shipped"));
      return steps;
    }

    public void pay() {
      paid = true;
    }
  }

  public static class NewOrder extends OldOrder {
    @Override
    public List<String> run() {
      // DEFAULT_VERSION in runs that passed this line without it.
      if (Workflow.getVersion("check-fraud", Workflow.DEFAULT_VERSION, 1) == 1) {
        steps.add(activities.step("checked"));
      }
      return super.run();
    }
  }

  static WorkerFactory start(WorkflowClient client, Class<?> code) {
    WorkerFactory factory = WorkerFactory.newInstance(client);
    Worker worker = factory.newWorker("orders");
    worker.registerWorkflowImplementationTypes(code);
    worker.registerActivitiesImplementations(new ActivitiesImpl());
    factory.start();
    return factory;
  }

  static WorkflowStub order(WorkflowClient client, String id) {
    WorkflowOptions options = WorkflowOptions.newBuilder().setWorkflowId(id).setTaskQueue("orders").build();
    Order order = client.newWorkflowStub(Order.class, options);
    WorkflowClient.start(order::run);
    order.pay();
    return WorkflowStub.fromTyped(order);
  }

  static void demo(WorkflowClient client) {
    WorkerFactory before = start(client, OldOrder.class);
    WorkflowStub oldRun = order(client, "order-old");
    before.shutdown();
    before.awaitTermination(10, TimeUnit.SECONDS);
    WorkerFactory after = start(client, NewOrder.class);
    WorkflowStub newRun = order(client, "order-new");
    System.out.println("old run: " + String.join(", ", oldRun.getResult(List.class)));
    System.out.println("new run: " + String.join(", ", newRun.getResult(List.class)));
    after.shutdownNow();
  }
}
