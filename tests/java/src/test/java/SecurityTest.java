import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.shaded.io.grpc.netty.GrpcSslContexts;
import io.grpc.netty.shaded.io.netty.handler.ssl.SslContextBuilder;
import io.temporal.activity.ActivityInterface;
import io.temporal.activity.ActivityOptions;
import io.temporal.api.workflowservice.v1.CountWorkflowExecutionsRequest;
import io.temporal.client.WorkflowClient;
import io.temporal.client.WorkflowOptions;
import io.temporal.serviceclient.WorkflowServiceStubs;
import io.temporal.serviceclient.WorkflowServiceStubsOptions;
import io.temporal.worker.Worker;
import io.temporal.worker.WorkerFactory;
import io.temporal.workflow.Workflow;
import io.temporal.workflow.WorkflowInterface;
import io.temporal.workflow.WorkflowMethod;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Temporal's own Java SDK, client and worker, against Segno with TLS, certificates and API keys. Each way in has a test that it works
 * and tests that what is almost the same is refused.
 */
@Timeout(120)
class SecurityTest {
  /** Flags of a server that wants API keys, or certificates whose names are those of keys. */
  private static final String[] WITH_KEYS = {
    "--admin-key-file", "{tls}/admin.key", "--tls-client-ca", "{tls}/ca.pem", "--tls-client-certs", "optional"
  };

  private static final String QUEUE = "guarded";

  @ActivityInterface
  public interface Activities {
    String greet(String name);
  }

  public static class ActivitiesImpl implements Activities {
    @Override
    public String greet(String name) {
      return "Hello, " + name + "!";
    }
  }

  @WorkflowInterface
  public interface Greeting {
    @WorkflowMethod
    String run(String name);
  }

  public static class GreetingImpl implements Greeting {
    private final Activities activities =
        Workflow.newActivityStub(
            Activities.class, ActivityOptions.newBuilder().setStartToCloseTimeout(Duration.ofSeconds(10)).build());

    @Override
    public String run(String name) {
      return activities.greet(name);
    }
  }

  @TempDir Path directory;
  private final List<AutoCloseable> opened = new ArrayList<>();

  @AfterEach
  void close() throws Exception {
    for (int at = opened.size() - 1; at >= 0; at--) {
      opened.get(at).close();
    }
  }

  private Server server(String... flags) throws Exception {
    Server server = new Server(directory, flags);
    opened.add(server);
    return server;
  }

  /** A connection that trusts the root in `roots` and has a client's certificate and a key where they are given. */
  private WorkflowServiceStubs connection(Server server, Path roots, Path certificate, String key) throws Exception {
    SslContextBuilder tls = GrpcSslContexts.forClient().trustManager(roots.resolve("ca.pem").toFile());
    if (certificate != null) {
      Path secret = Path.of(certificate.toString().replace(".pem", ".key"));
      tls.keyManager(certificate.toFile(), secret.toFile());
    }
    WorkflowServiceStubsOptions.Builder options =
        WorkflowServiceStubsOptions.newBuilder().setTarget(server.address).setSslContext(tls.build());
    if (key != null) {
      options.addApiKey(() -> key);
    }
    WorkflowServiceStubs service = WorkflowServiceStubs.newServiceStubs(options.build());
    opened.add(
        () -> {
          service.shutdownNow();
          assertTrue(service.awaitTermination(10, TimeUnit.SECONDS));
        });
    return service;
  }

  private static void count(WorkflowServiceStubs service) {
    service
        .blockingStub()
        .withDeadlineAfter(10, TimeUnit.SECONDS)
        .countWorkflowExecutions(CountWorkflowExecutionsRequest.newBuilder().setNamespace("default").build());
  }

  /** Executes a workflow with one activity, client and worker on this connection. */
  private static void works(WorkflowServiceStubs service) {
    WorkflowClient client = WorkflowClient.newInstance(service);
    WorkerFactory factory = WorkerFactory.newInstance(client);
    Worker worker = factory.newWorker(QUEUE);
    worker.registerWorkflowImplementationTypes(GreetingImpl.class);
    worker.registerActivitiesImplementations(new ActivitiesImpl());
    factory.start();
    try {
      WorkflowOptions options =
          WorkflowOptions.newBuilder().setTaskQueue(QUEUE).setWorkflowRunTimeout(Duration.ofSeconds(30)).build();
      assertEquals("Hello, Java!", client.newWorkflowStub(Greeting.class, options).run("Java"));
    } finally {
      factory.shutdown();
      factory.awaitTermination(10, TimeUnit.SECONDS);
    }
  }

  /** The call ends with this code. */
  private static void refused(WorkflowServiceStubs service, Status.Code code) {
    StatusRuntimeException error = assertThrows(StatusRuntimeException.class, () -> count(service));
    assertEquals(code, error.getStatus().getCode(), error.toString());
  }

  /** The TLS handshake fails for a reason that has these words. */
  private static void noConnection(WorkflowServiceStubs service, String words) {
    StatusRuntimeException error = assertThrows(StatusRuntimeException.class, () -> count(service));
    assertEquals(Status.Code.UNAVAILABLE, error.getStatus().getCode(), error.toString());
    StringBuilder text = new StringBuilder();
    for (Throwable cause = error; cause != null; cause = cause.getCause()) {
      text.append(cause).append('\n');
    }
    assertTrue(Pattern.compile(words, Pattern.CASE_INSENSITIVE).matcher(text).find(), text.toString());
  }

  @Test
  void tlsWithAnApiKey() throws Exception {
    Server server = server(WITH_KEYS);
    String key = server.admin("key", "create", "both", "--grant", "default:write", "--grant", "default:work");
    works(connection(server, server.certificates, null, key));
  }

  @Test
  void keysThatAreRefused() throws Exception {
    Server server = server(WITH_KEYS);
    Path roots = server.certificates;
    refused(connection(server, roots, null, null), Status.Code.UNAUTHENTICATED);
    refused(connection(server, roots, null, "segno_nobody"), Status.Code.UNAUTHENTICATED);
    server.admin("namespace", "create", "elsewhere");
    String other = server.admin("key", "create", "other", "--grant", "elsewhere:admin");
    refused(connection(server, roots, null, other), Status.Code.PERMISSION_DENIED);

    String key = server.admin("key", "create", "reader", "--grant", "default:read");
    WorkflowServiceStubs reader = connection(server, roots, null, key);
    count(reader);
    // On the same connection, from the moment the command returns.
    server.admin("key", "revoke", "reader");
    refused(reader, Status.Code.UNAUTHENTICATED);
  }

  @Test
  void anotherRoot() throws Exception {
    Server server = server(WITH_KEYS);
    Path strange = Server.certificates(Files.createDirectory(directory.resolve("strange")));
    noConnection(connection(server, strange, null, null), "unable to find valid certification path|CertPath");
  }

  @Test
  void aCertificateThatNamesAKey() throws Exception {
    Server server = server(WITH_KEYS);
    server.admin("key", "create", "ann", "--certificate", "ann", "--grant", "default:write", "--grant", "default:work");
    WorkflowServiceStubs ann = connection(server, server.certificates, server.file("ann.pem"), null);
    works(ann);
    // Bob has a certificate of the same root, and no key has his name.
    refused(connection(server, server.certificates, server.file("bob.pem"), null), Status.Code.UNAUTHENTICATED);
    server.admin("key", "revoke", "ann");
    refused(ann, Status.Code.UNAUTHENTICATED);
  }

  @Test
  void mutualTls() throws Exception {
    Server server = server("--tls-client-ca", "{tls}/ca.pem");
    works(connection(server, server.certificates, server.file("bob.pem"), null));
    noConnection(connection(server, server.certificates, null, null), "certificate.required");
    Path strange = Server.certificates(Files.createDirectory(directory.resolve("strange")));
    noConnection(
        connection(server, server.certificates, strange.resolve("ann.pem"), null),
        "unknown.ca|bad.certificate|decrypt.error");
  }
}
