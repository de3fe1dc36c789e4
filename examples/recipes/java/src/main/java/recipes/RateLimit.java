package recipes;

import io.temporal.activity.ActivityInterface;
import io.temporal.activity.ActivityOptions;
import io.temporal.client.WorkflowClient;
import io.temporal.worker.Worker;
import io.temporal.worker.WorkerFactory;
import io.temporal.worker.WorkerOptions;
import io.temporal.workflow.Async;
import io.temporal.workflow.Promise;
import io.temporal.workflow.Workflow;
import io.temporal.workflow.WorkflowInterface;
import io.temporal.workflow.WorkflowMethod;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.stream.IntStream;

/** At most five calls a second to a service, from all workers together. */
class RateLimit {
  private static final List<Long> calls = new CopyOnWriteArrayList<>();

  @ActivityInterface
  public interface Activities {
    void sendSms(String number);
  }

  public static class ActivitiesImpl implements Activities {
    public void sendSms(String number) {
      calls.add(System.currentTimeMillis());
    }
  }

  @WorkflowInterface
  public interface Campaign {
    @WorkflowMethod
    int run(List<String> numbers);
  }

  public static class CampaignImpl implements Campaign {
    private final Activities activities =
        Workflow.newActivityStub(
            Activities.class,
            ActivityOptions.newBuilder()
                .setTaskQueue("sms")
                .setStartToCloseTimeout(Duration.ofSeconds(10))
                .build());

    public int run(List<String> numbers) {
      List<Promise<Void>> sent =
          numbers.stream().map(number -> Async.procedure(activities::sendSms, number)).toList();
      Promise.allOf(sent).get();
      return sent.size();
    }
  }

  static void register(Worker worker) {
    worker.registerWorkflowImplementationTypes(CampaignImpl.class);
  }

  static void demo(WorkflowClient client) {
    // The server enforces the limit for the whole queue, however many workers poll it.
    WorkerFactory factory = WorkerFactory.newInstance(client);
    factory
        .newWorker("sms", WorkerOptions.newBuilder().setMaxTaskQueueActivitiesPerSecond(5).build())
        .registerActivitiesImplementations(new ActivitiesImpl());
    factory.start();
    List<String> numbers = IntStream.range(0, 11).mapToObj(number -> "+49 30 555 " + number).toList();
    int sent = client.newWorkflowStub(Campaign.class, Run.options("campaign-1")).run(numbers);
    boolean kept = calls.get(calls.size() - 1) - calls.get(0) > 1500;
    System.out.println(sent + " messages, " + (kept ? "at most" : "more than") + " 5 a second");
    factory.shutdownNow();
  }
}
