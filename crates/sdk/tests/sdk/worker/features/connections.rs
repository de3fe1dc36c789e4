//! Scenarios of how clients connect.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

use segno_sdk::{Client, ClientError, Context, HttpProxy, Result, WorkflowContext, task, workflow};

use super::start;

#[task]
async fn greeting(name: String) -> Result<String> {
    Ok(format!("Hello, {name}!"))
}

#[workflow]
async fn greet(ctx: Context, name: String) -> Result<String> {
    Ok(ctx.schedule::<Greeting>(name).await?)
}

/// An HTTP proxy that knows CONNECT only. It notes where connections go, and asks for a password if it has one.
struct HttpProxyServer {
    address: String,
    connections: Arc<Mutex<Vec<String>>>,
}

impl HttpProxyServer {
    fn start(credentials: Option<&'static str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let connections = Arc::new(Mutex::new(Vec::new()));
        let noted = connections.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let noted = noted.clone();
                thread::spawn(move || serve(client, credentials, &noted));
            }
        });
        Self { address, connections }
    }
}

fn serve(mut client: TcpStream, credentials: Option<&str>, noted: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(client.try_clone().unwrap());
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if line == "\r\n" {
            break;
        }
        head.push(line.trim_end().to_owned());
    }
    let given = head.iter().find_map(|line| line.strip_prefix("Proxy-Authorization: Basic "));
    if given != credentials {
        let _ = client.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n");
        return;
    }
    let target = head[0].split(' ').nth(1).unwrap().to_owned();
    let server = TcpStream::connect(&target).unwrap();
    noted.lock().unwrap().push(target);
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").unwrap();
    let (mut up, mut down) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    thread::spawn(move || std::io::copy(&mut reader, &mut up));
    let _ = std::io::copy(&mut &server, &mut down);
}

/// `client/http_proxy`, and with a password as in `client/http_proxy_auth`.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test --only build,venv,sdk"]
async fn http_proxy() {
    let (server, queue) = start().await;
    let target = server.address().trim_start_matches("http://").to_owned();
    let (open, closed) = (HttpProxyServer::start(None), HttpProxyServer::start(Some("dXNlcjpwYXNz")));
    let proxies =
        [(&open, HttpProxy::new(&open.address)), (&closed, HttpProxy::new(&closed.address).basic_auth("user", "pass"))];
    for (number, (proxy, settings)) in proxies.into_iter().enumerate() {
        let client = Client::builder().target(server.address()).http_proxy(settings).connect().await.unwrap();
        let queue = client.queue(format!("{}-{number}", queue.name()));
        let worker = queue.worker().workflow::<Greet>().task::<Greeting>().build().unwrap();
        let output = worker.run_until(queue.execute::<Greet>(format!("greet-{number}"), "Ann".to_owned())).await;
        assert_eq!(output.unwrap(), "Hello, Ann!");
        assert_eq!(*proxy.connections.lock().unwrap(), [target.as_str()], "one connection, and through the proxy");
    }
    let refused = Client::builder().target(server.address()).http_proxy(closed.address.as_str()).connect().await;
    let Err(ClientError::Rpc { message, .. }) = refused else { panic!("{refused:?}") };
    assert!(message.ends_with("the proxy answered \"HTTP/1.1 407 Proxy Authentication Required\""), "{message}");
}
