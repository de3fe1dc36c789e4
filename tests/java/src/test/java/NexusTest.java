import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.netty.shaded.io.grpc.netty.GrpcSslContexts;
import io.nexusrpc.Operation;
import io.nexusrpc.OperationException;
import io.nexusrpc.Service;
import io.nexusrpc.handler.OperationHandler;
import io.nexusrpc.handler.OperationImpl;
import io.nexusrpc.handler.ServiceImpl;
import io.temporal.client.WorkflowClient;
import io.temporal.client.WorkflowClientOptions;
import io.temporal.client.WorkflowException;
import io.temporal.client.WorkflowOptions;
import io.temporal.failure.ApplicationFailure;
import io.temporal.failure.CanceledFailure;
import io.temporal.failure.NexusOperationFailure;
import io.temporal.nexus.Nexus;
import io.temporal.nexus.WorkflowRunOperation;
import io.temporal.serviceclient.WorkflowServiceStubs;
import io.temporal.serviceclient.WorkflowServiceStubsOptions;
import io.temporal.worker.Worker;
import io.temporal.worker.WorkerFactory;
import io.temporal.workflow.CancellationScope;
import io.temporal.workflow.NexusOperationHandle;
import io.temporal.workflow.NexusServiceOptions;
import io.temporal.workflow.Workflow;
import io.temporal.workflow.WorkflowInterface;
import io.temporal.workflow.WorkflowMethod;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Workflows of one namespace call operations that the workers of another one handle. */
@Timeout(120)
class NexusTest {
  private static final String ENDPOINT = "payments";
  private static final String HANDLERS = "handlers";
  private static final String ORDERS = "orders";
  private static final String FINANCE = "finance";

  @Service
  public interface Payments {
    @Operation
    Integer quote(Integer amount);

    @Operation
    Integer charge(Integer price);
  }

  @WorkflowInterface
  public interface Charged {
    @WorkflowMethod
    Integer charge(Integer price);
  }

  /** Ends at once, or when it is cancelled if the price is 0. */
  public static class Charge implements Charged {
    @Override
    public Integer charge(Integer price) {
      if (price == 0) {
        Workflow.await(() -> false);
      }
      return price;
    }
  }

  @ServiceImpl(service = Payments.class)
  public static class Handlers {
    @OperationImpl
    public OperationHandler<Integer, Integer> quote() {
      return OperationHandler.sync(
          (context, details, amount) -> {
            if (amount < 0) {
              throw OperationException.failed("no quote for " + amount);
            }
            return amount + 19;
          });
    }

    @OperationImpl
    public OperationHandler<Integer, Integer> charge() {
      return WorkflowRunOperation.fromWorkflowMethod(
          (context, details, price) -> {
            WorkflowOptions options = WorkflowOptions.newBuilder().setWorkflowId("charge-" + details.getRequestId()).build();
            return Nexus.getOperationContext().getWorkflowClient().newWorkflowStub(Charged.class, options)::charge;
          });
    }
  }

  private static Payments payments() {
    return Workflow.newNexusServiceStub(Payments.class, NexusServiceOptions.newBuilder().setEndpoint(ENDPOINT).build());
  }

  @WorkflowInterface
  public interface Ordered {
    @WorkflowMethod
    Integer order(Integer amount);
  }

  /** Calls an operation that is answered at once, and one that is a workflow. */
  public static class Order implements Ordered {
    @Override
    public Integer order(Integer amount) {
      return payments().charge(payments().quote(amount));
    }
  }

  @WorkflowInterface
  public interface Revoked {
    @WorkflowMethod
    String revoke();
  }

  /** Cancels an operation once it is started, and returns how it ended. */
  public static class Revoke implements Revoked {
    private NexusOperationHandle<Integer> operation;

    @Override
    public String revoke() {
      Payments payments = payments();
      CancellationScope scope =
          Workflow.newCancellationScope(() -> operation = Workflow.startNexusOperation(payments::charge, 0));
      scope.run();
      assertFalse(operation.getExecution().get().getOperationToken().orElse("").isEmpty());
      scope.cancel();
      try {
        operation.getResult().get();
      } catch (NexusOperationFailure failure) {
        return failure.getCause() instanceof CanceledFailure ? "canceled" : failure.toString();
      }
      return "completed";
    }
  }

  @TempDir Path directory;

  private static WorkflowClient client(WorkflowServiceStubs service, String namespace) {
    return WorkflowClient.newInstance(service, WorkflowClientOptions.newBuilder().setNamespace(namespace).build());
  }

  private static <T> T stub(WorkflowClient client, Class<T> kind) {
    return client.newWorkflowStub(kind, WorkflowOptions.newBuilder().setTaskQueue(ORDERS).build());
  }

  @Test
  void operationsOfAnotherNamespace() throws Exception {
    try (Server server = new Server(directory)) {
      for (List<String> words :
          List.of(
              List.of("namespace", "create", FINANCE),
              List.of("nexus", "endpoint", "create", "--name", ENDPOINT, "--target-namespace", FINANCE, "--target-task-queue", HANDLERS))) {
        Server.Ended ended = server.ended(words.toArray(String[]::new));
        assertEquals(0, ended.code(), ended.text());
      }
      WorkflowServiceStubsOptions options =
          WorkflowServiceStubsOptions.newBuilder()
              .setTarget(server.address)
              .setSslContext(GrpcSslContexts.forClient().trustManager(server.file("ca.pem").toFile()).build())
              .build();
      WorkflowServiceStubs service = WorkflowServiceStubs.newServiceStubs(options);
      WorkerFactory finance = WorkerFactory.newInstance(client(service, FINANCE));
      Worker handlers = finance.newWorker(HANDLERS);
      handlers.registerNexusServiceImplementation(new Handlers());
      handlers.registerWorkflowImplementationTypes(Charge.class);
      WorkflowClient client = client(service, "default");
      WorkerFactory shop = WorkerFactory.newInstance(client);
      shop.newWorker(ORDERS).registerWorkflowImplementationTypes(Order.class, Revoke.class);
      finance.start();
      shop.start();
      try {
        assertEquals(119, stub(client, Ordered.class).order(100));
        WorkflowException failed = assertThrows(WorkflowException.class, () -> stub(client, Ordered.class).order(-1));
        NexusOperationFailure failure = assertInstanceOf(NexusOperationFailure.class, failed.getCause());
        assertEquals(ENDPOINT, failure.getEndpoint());
        ApplicationFailure cause = assertInstanceOf(ApplicationFailure.class, failure.getCause());
        assertEquals("no quote for -1", cause.getOriginalMessage());
        assertEquals("canceled", stub(client, Revoked.class).revoke());
      } finally {
        shop.shutdownNow();
        finance.shutdownNow();
        shop.awaitTermination(10, TimeUnit.SECONDS);
        finance.awaitTermination(10, TimeUnit.SECONDS);
        service.shutdownNow();
        assertTrue(service.awaitTermination(10, TimeUnit.SECONDS));
      }
    }
  }
}
