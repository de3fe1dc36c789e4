package recipes;

import io.temporal.client.WorkflowClient;
import io.temporal.client.WorkflowOptions;
import io.temporal.serviceclient.WorkflowServiceStubs;
import io.temporal.serviceclient.WorkflowServiceStubsOptions;
import io.temporal.worker.Worker;
import io.temporal.worker.WorkerFactory;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;

/**
 * Runs a recipe: {@code mvn -q compile exec:java -Dexec.args=saga}. Starts a worker with the recipe's workflows and
 * activities, then the recipe's client. Without an argument it runs all of them.
 */
public class Run {
  interface Demo {
    void run(WorkflowClient client) throws Exception;
  }

  /** Without {@code register} the recipe starts its workers itself. */
  record Recipe(Consumer<Worker> register, Demo demo) {}

  private static final Map<String, Recipe> RECIPES = new LinkedHashMap<>();

  static {
    RECIPES.put("human-approval", new Recipe(HumanApproval::register, HumanApproval::demo));
    RECIPES.put("saga", new Recipe(Saga::register, Saga::demo));
    RECIPES.put("cron-job", new Recipe(CronJob::register, CronJob::demo));
    RECIPES.put("fan-out", new Recipe(FanOut::register, FanOut::demo));
    RECIPES.put("rate-limit", new Recipe(RateLimit::register, RateLimit::demo));
    RECIPES.put("production-worker", new Recipe(null, ProductionWorker::demo));
    RECIPES.put("versioning", new Recipe(null, Versioning::demo));
    RECIPES.put("polling", new Recipe(Polling::register, Polling::demo));
    RECIPES.put("webhook", new Recipe(Webhook::register, Webhook::demo));
    RECIPES.put("large-payloads", new Recipe(LargePayloads::register, LargePayloads::demo));
  }

  static WorkflowOptions options(String workflowId) {
    return WorkflowOptions.newBuilder().setWorkflowId(workflowId).setTaskQueue("recipes").build();
  }

  public static void main(String[] names) throws Exception {
    String address = System.getenv().getOrDefault("TEMPORAL_ADDRESS", "127.0.0.1:7233");
    WorkflowClient client =
        WorkflowClient.newInstance(
            WorkflowServiceStubs.newServiceStubs(
                WorkflowServiceStubsOptions.newBuilder().setTarget(address).build()));
    for (String name : names.length > 0 ? Set.of(names) : RECIPES.keySet()) {
      Recipe recipe = RECIPES.get(name);
      System.out.println("== " + name);
      WorkerFactory factory = WorkerFactory.newInstance(client);
      if (recipe.register() != null) {
        recipe.register().accept(factory.newWorker("recipes"));
        factory.start();
      }
      recipe.demo().run(client);
      factory.shutdownNow();
    }
    System.exit(0);
  }
}
