package security

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const readyMax = 30 * time.Second

// server is a Segno of its own, in memory, with certificates by `segno tls init` for the clients ann and bob.
type server struct {
	address      string
	certificates string
	adminKey     string
}

// binary is the program under test: SEGNO_BIN, or what cargo builds.
func binary(t *testing.T) string {
	t.Helper()
	path := os.Getenv("SEGNO_BIN")
	if path == "" {
		path = "../../target/debug/segno"
	}
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// segno runs a command and returns what it printed.
func segno(t *testing.T, environment []string, words ...string) string {
	t.Helper()
	command := exec.Command(binary(t), words...)
	command.Env = append(os.Environ(), environment...)
	var errors bytes.Buffer
	command.Stderr = &errors
	output, err := command.Output()
	if err != nil {
		t.Fatalf("segno %s: %v: %s", strings.Join(words, " "), err, errors.String())
	}
	return strings.TrimSpace(string(output))
}

// admin runs a command with the key that may do everything.
func (s *server) admin(t *testing.T, words ...string) string {
	t.Helper()
	words = append(words, "--address", s.address, "--tls-ca-path", s.file("ca.pem"))
	return segno(t, []string{"SEGNO_API_KEY=" + s.adminKey}, words...)
}

func (s *server) file(name string) string {
	return filepath.Join(s.certificates, name)
}

// certificates makes a root of its own, a certificate for the server and one for each of two clients.
func certificates(t *testing.T) string {
	t.Helper()
	directory := filepath.Join(t.TempDir(), "tls")
	segno(t, nil, "tls", "init", "--dir", directory, "--client", "ann", "--client", "bob")
	return directory
}

// start starts a server with TLS that is gone when the test ends. {tls} in a flag is the directory of its certificates.
func start(t *testing.T, flags ...string) *server {
	t.Helper()
	s := &server{certificates: certificates(t)}
	port, httpPort := freePort(t), freePort(t)
	s.address = fmt.Sprintf("127.0.0.1:%d", port)
	words := []string{"serve", "--in-memory", "--port", fmt.Sprint(port), "--http-port", fmt.Sprint(httpPort)}
	words = append(words, "--tls-cert", s.file("server.pem"), "--tls-key", s.file("server.key"))
	for _, flag := range flags {
		words = append(words, strings.ReplaceAll(flag, "{tls}", s.certificates))
	}
	log := &output{}
	command := exec.Command(binary(t), words...)
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	t.Cleanup(func() {
		_ = command.Process.Kill()
		<-ended
	})
	deadline := time.Now().Add(readyMax)
	for !strings.Contains(log.text(), "ready") {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the server ended: %v: %s", err, log.text())
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server is not ready: %s", log.text())
		}
		time.Sleep(20 * time.Millisecond)
	}
	if key, err := os.ReadFile(s.file("admin.key")); err == nil {
		s.adminKey = strings.TrimSpace(string(key))
	}
	return s
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// trusting is the configuration of a client that trusts the root in `certificates`.
func trusting(t *testing.T, certificates string) *tls.Config {
	t.Helper()
	root, err := os.ReadFile(filepath.Join(certificates, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(root) {
		t.Fatal("no certificate in ca.pem")
	}
	return &tls.Config{RootCAs: roots}
}

// withCertificate adds the certificate of a client.
func withCertificate(t *testing.T, config *tls.Config, certificates, client string) *tls.Config {
	t.Helper()
	file := filepath.Join(certificates, client)
	pair, err := tls.LoadX509KeyPair(file+".pem", file+".key")
	if err != nil {
		t.Fatal(err)
	}
	config.Certificates = []tls.Certificate{pair}
	return config
}

// output keeps what a process prints.
type output struct {
	mutex  sync.Mutex
	buffer bytes.Buffer
}

func (o *output) Write(data []byte) (int, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.buffer.Write(data)
}

func (o *output) text() string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.buffer.String()
}
