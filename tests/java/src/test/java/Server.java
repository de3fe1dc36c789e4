import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** A Segno of its own, in memory, with certificates by `segno tls init` for the clients ann and bob; gone when closed. */
final class Server implements AutoCloseable {
  private static final long READY_MAX_NANOS = TimeUnit.SECONDS.toNanos(30);

  final String address;
  final Path certificates;
  private final Process process;

  /** {tls} in a flag is the directory of the certificates. */
  Server(Path directory, String... flags) throws Exception {
    certificates = certificates(directory);
    int port = freePort();
    address = "127.0.0.1:" + port;
    List<String> words = new ArrayList<>(List.of("serve", "--in-memory", "--port", "" + port));
    words.addAll(List.of("--http-port", "" + freePort()));
    words.addAll(List.of("--tls-cert", file("server.pem").toString(), "--tls-key", file("server.key").toString()));
    for (String flag : flags) {
      words.add(flag.replace("{tls}", certificates.toString()));
    }
    File log = directory.resolve("server.log").toFile();
    process = command(words, Map.of()).redirectErrorStream(true).redirectOutput(log).start();
    long deadline = System.nanoTime() + READY_MAX_NANOS;
    while (!Files.readString(log.toPath()).contains("ready")) {
      if (!process.isAlive() || System.nanoTime() > deadline) {
        process.destroyForcibly();
        throw new IllegalStateException("the server did not start: " + Files.readString(log.toPath()));
      }
      Thread.sleep(20);
    }
  }

  /** A root of its own, a certificate for the server and one for each of two clients. */
  static Path certificates(Path directory) throws Exception {
    Path place = directory.resolve("tls");
    run(List.of("tls", "init", "--dir", place.toString(), "--client", "ann", "--client", "bob"), Map.of());
    return place;
  }

  Path file(String name) {
    return certificates.resolve(name);
  }

  /** Runs a command with the key that may do everything, and returns what it printed. */
  String admin(String... words) throws Exception {
    List<String> all = new ArrayList<>(List.of(words));
    all.addAll(List.of("--address", address, "--tls-ca-path", file("ca.pem").toString()));
    return run(all, Map.of("SEGNO_API_KEY", Files.readString(file("admin.key")).trim()));
  }

  /** The exit code of a command, and what it printed. */
  record Ended(int code, String text) {}

  /** Runs a command that may fail. */
  Ended ended(String... words) throws Exception {
    List<String> all = new ArrayList<>(List.of(words));
    all.addAll(List.of("--address", address, "--tls-ca-path", file("ca.pem").toString()));
    Process process = command(all, Map.of()).redirectErrorStream(true).start();
    try (InputStream output = process.getInputStream()) {
      String text = new String(output.readAllBytes(), StandardCharsets.UTF_8);
      return new Ended(process.waitFor(), text);
    }
  }

  @Override
  public void close() throws InterruptedException {
    process.destroyForcibly().waitFor();
  }

  private static String run(List<String> words, Map<String, String> environment) throws Exception {
    Process process = command(words, environment).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    try (InputStream output = process.getInputStream()) {
      String text = new String(output.readAllBytes(), StandardCharsets.UTF_8).trim();
      if (process.waitFor() != 0) {
        throw new IllegalStateException("segno " + String.join(" ", words) + " exits with " + process.exitValue());
      }
      return text;
    }
  }

  /** The program under test is SEGNO_BIN, or what cargo builds. */
  private static ProcessBuilder command(List<String> words, Map<String, String> environment) {
    String binary = System.getenv().getOrDefault("SEGNO_BIN", "../../target/debug/segno");
    List<String> all = new ArrayList<>(List.of(new File(binary).getAbsolutePath()));
    all.addAll(words);
    ProcessBuilder builder = new ProcessBuilder(all);
    builder.environment().putAll(environment);
    return builder;
  }

  private static int freePort() throws IOException {
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      return socket.getLocalPort();
    }
  }
}
