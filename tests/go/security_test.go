// Package security has Temporal's own Go SDK, client and worker, connect to Segno with TLS, certificates and API keys.
// Each way in has a test that it works and tests that what is almost the same is refused.
package security

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/grpc/codes"
)

const queue = "guarded"

// Flags of a server that wants API keys, or certificates whose names are those of keys.
var withKeys = []string{"--admin-key-file", "{tls}/admin.key", "--tls-client-ca", "{tls}/ca.pem", "--tls-client-certs", "optional"}

func greet(_ context.Context, name string) (string, error) {
	return "Hello, " + name + "!", nil
}

func greeting(ctx workflow.Context, name string) (string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: 10 * time.Second})
	var text string
	err := workflow.ExecuteActivity(ctx, greet, name).Get(ctx, &text)
	return text, err
}

func options(s *server, config *tls.Config, key string) client.Options {
	options := client.Options{
		HostPort:          s.address,
		Logger:            log.NewStructuredLogger(slog.New(slog.NewTextHandler(io.Discard, nil))),
		ConnectionOptions: client.ConnectionOptions{TLS: config},
	}
	if key != "" {
		options.Credentials = client.NewAPIKeyStaticCredentials(key)
	}
	return options
}

func connect(t *testing.T, s *server, config *tls.Config, key string) client.Client {
	t.Helper()
	c, err := client.Dial(options(s, config, key))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func count(c client.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Namespace: "default"})
	return err
}

// works executes a workflow with one activity through this client, by a worker with the same credentials.
func works(t *testing.T, c client.Client) {
	t.Helper()
	w := worker.New(c, queue, worker.Options{})
	w.RegisterWorkflow(greeting)
	w.RegisterActivity(greet)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: queue}, greeting, "Go")
	if err != nil {
		t.Fatal(err)
	}
	var text string
	if err := run.Get(ctx, &text); err != nil {
		t.Fatal(err)
	}
	if text != "Hello, Go!" {
		t.Fatalf("the result is %q", text)
	}
}

// refused expects a call to end with this code.
func refused(t *testing.T, c client.Client, code codes.Code) {
	t.Helper()
	err := count(c)
	if err == nil {
		t.Fatal("the call is not refused")
	}
	if found := serviceerror.ToStatus(err).Code(); found != code {
		t.Fatalf("refused with %v instead of %v: %v", found, code, err)
	}
}

// noConnection expects the TLS handshake to fail for a reason that has one of these words.
func noConnection(t *testing.T, s *server, config *tls.Config, words ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := client.DialContext(ctx, options(s, config, ""))
	if err == nil {
		c.Close()
		t.Fatal("the connection is not refused")
	}
	var text strings.Builder
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		text.WriteString(cause.Error() + "\n")
	}
	for _, word := range words {
		if strings.Contains(text.String(), word) {
			return
		}
	}
	t.Fatalf("refused without one of %q: %s", words, text.String())
}

func TestTLSWithAPIKey(t *testing.T) {
	s := start(t, withKeys...)
	both := s.admin(t, "key", "create", "both", "--grant", "default:write", "--grant", "default:work")
	works(t, connect(t, s, trusting(t, s.certificates), both))
}

func TestKeysThatAreRefused(t *testing.T) {
	s := start(t, withKeys...)
	config := func() *tls.Config { return trusting(t, s.certificates) }
	refused(t, connect(t, s, config(), ""), codes.Unauthenticated)
	refused(t, connect(t, s, config(), "segno_nobody"), codes.Unauthenticated)
	s.admin(t, "namespace", "create", "elsewhere")
	other := s.admin(t, "key", "create", "other", "--grant", "elsewhere:admin")
	refused(t, connect(t, s, config(), other), codes.PermissionDenied)

	reader := connect(t, s, config(), s.admin(t, "key", "create", "reader", "--grant", "default:read"))
	if err := count(reader); err != nil {
		t.Fatal(err)
	}
	// On the same connection, from the moment the command returns.
	s.admin(t, "key", "revoke", "reader")
	refused(t, reader, codes.Unauthenticated)
}

func TestAnotherRoot(t *testing.T) {
	s := start(t, withKeys...)
	noConnection(t, s, trusting(t, certificates(t)), "unknown authority", "certificate signed by")
}

func TestCertificateThatNamesAKey(t *testing.T) {
	s := start(t, withKeys...)
	grants := []string{"--grant", "default:write", "--grant", "default:work"}
	s.admin(t, append([]string{"key", "create", "ann", "--certificate", "ann"}, grants...)...)
	ann := connect(t, s, withCertificate(t, trusting(t, s.certificates), s.certificates, "ann"), "")
	works(t, ann)
	// Bob has a certificate of the same root, and no key has his name.
	bob := connect(t, s, withCertificate(t, trusting(t, s.certificates), s.certificates, "bob"), "")
	refused(t, bob, codes.Unauthenticated)
	s.admin(t, "key", "revoke", "ann")
	refused(t, ann, codes.Unauthenticated)
}

func TestMutualTLS(t *testing.T) {
	s := start(t, "--tls-client-ca", "{tls}/ca.pem")
	works(t, connect(t, s, withCertificate(t, trusting(t, s.certificates), s.certificates, "bob"), ""))
	noConnection(t, s, trusting(t, s.certificates), "certificate required")
	// Its root has the same name and another key.
	stranger := withCertificate(t, trusting(t, s.certificates), certificates(t), "ann")
	noConnection(t, s, stranger, "unknown certificate authority", "bad certificate", "error decrypting message")
}
