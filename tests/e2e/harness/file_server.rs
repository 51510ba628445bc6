//! An HTTP server on a loopback address, for what commands download.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// An HTTP server with fixed files. It records the paths of its requests.
pub struct FileServer {
    pub port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl FileServer {
    /// Starts it at an address. `files` gets the port.
    pub fn start(address: &str, files: impl FnOnce(u16) -> HashMap<String, Vec<u8>>) -> Self {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (files, requests) = (files(port), Arc::new(Mutex::new(Vec::new())));
        let seen = requests.clone();
        // Ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A client that went away is no failure of the server.
                let _ = serve_file(stream, &files, &seen);
            }
        });
        Self { port, requests }
    }

    /// Starts a server whose only file is `/hello`.
    pub fn hello(address: &str) -> Self {
        let files = HashMap::from([("/hello".to_owned(), b"hello from outside\n".to_vec())]);
        Self::start(address, |_| files)
    }

    /// Returns the paths of the requests so far.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

fn serve_file(
    mut stream: TcpStream,
    files: &HashMap<String, Vec<u8>>,
    seen: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let found = files.get(&path);
    seen.lock().unwrap().push(path.clone());
    let kind = if path.ends_with('/') {
        "text/html"
    } else {
        "application/octet-stream"
    };
    let body = found.map(Vec::as_slice).unwrap_or_default();
    let status = if found.is_some() {
        "200 OK"
    } else {
        "404 Not Found"
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    )?;
    stream.write_all(body)
}
