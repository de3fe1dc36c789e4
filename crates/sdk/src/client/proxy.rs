//! Connections through an HTTP proxy, by the method CONNECT.

use std::io;

use base64::{Engine, prelude::BASE64_STANDARD};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::dial::dial;

/// The longest answer of a proxy before the connection itself begins.
const ANSWER_BYTES_MAX: usize = 8 * 1024;

/// A proxy that a client connects through: [`ClientBuilder::http_proxy`](crate::ClientBuilder::http_proxy). An address alone
/// can stand for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpProxy {
    /// Where it listens: `host:port`.
    pub address: String,
    /// User and password, if it asks for them.
    pub basic_auth: Option<(String, String)>,
}

impl HttpProxy {
    /// A proxy that asks for no password.
    pub fn new(address: impl Into<String>) -> Self {
        Self { address: address.into(), basic_auth: None }
    }

    /// With a user and a password.
    pub fn basic_auth(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.basic_auth = Some((user.into(), password.into()));
        self
    }

    fn request(&self, target: &str) -> String {
        let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
        if let Some((user, password)) = &self.basic_auth {
            let credentials = BASE64_STANDARD.encode(format!("{user}:{password}"));
            request.push_str(&format!("Proxy-Authorization: Basic {credentials}\r\n"));
        }
        request.push_str("\r\n");
        request
    }

    pub(super) async fn connect(&self, target: &str) -> io::Result<TcpStream> {
        let address = self.address.strip_prefix("http://").unwrap_or(&self.address).trim_end_matches('/');
        let mut stream = dial(address).await?;
        stream.set_nodelay(true)?;
        stream.write_all(self.request(target).as_bytes()).await?;
        let mut answer = Vec::new();
        // One byte at a time: what follows the answer belongs to the connection.
        while !answer.ends_with(b"\r\n\r\n") {
            if answer.len() >= ANSWER_BYTES_MAX {
                return Err(io::Error::other("the answer of the proxy is too long"));
            }
            answer.push(stream.read_u8().await?);
        }
        let line = String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned();
        match line.split(' ').nth(1) {
            Some(status) if status.starts_with('2') => Ok(stream),
            _ => Err(io::Error::other(format!("the proxy answered {line:?}"))),
        }
    }
}

impl From<&str> for HttpProxy {
    fn from(address: &str) -> Self {
        Self::new(address)
    }
}

impl From<String> for HttpProxy {
    fn from(address: String) -> Self {
        Self::new(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests() {
        let plain = HttpProxy::new("127.0.0.1:3128");
        assert_eq!(plain.request("a:7233"), "CONNECT a:7233 HTTP/1.1\r\nHost: a:7233\r\n\r\n");
        let request = plain.basic_auth("Aladdin", "open sesame").request("a:7233");
        // The example of RFC 7617.
        assert!(request.contains("\r\nProxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n\r\n"), "{request}");
    }

    async fn answered(answer: &'static [u8]) -> io::Result<Vec<u8>> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let proxy = HttpProxy::new(format!("http://{}/", listener.local_addr()?));
        let serve = async {
            let (mut stream, _) = listener.accept().await?;
            let mut request = vec![0; proxy.request("a:1").len()];
            stream.read_exact(&mut request).await?;
            stream.write_all(answer).await?;
            stream.shutdown().await
        };
        let (_, connected) = tokio::join!(serve, proxy.connect("a:1"));
        let mut rest = Vec::new();
        connected?.read_to_end(&mut rest).await?;
        Ok(rest)
    }

    #[tokio::test]
    async fn what_follows_the_answer_is_left_to_the_connection() {
        let rest = answered(b"HTTP/1.1 200 Connection established\r\nVia: a\r\n\r\nPRI").await;
        assert_eq!(rest.unwrap(), b"PRI");
    }

    #[tokio::test]
    async fn a_refusal_is_named() {
        let refused = answered(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await.unwrap_err();
        assert_eq!(refused.to_string(), "the proxy answered \"HTTP/1.1 407 Proxy Authentication Required\"");
        assert!(answered(b"HTTP/1.1 200").await.is_err());
    }
}
