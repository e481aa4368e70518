//! Stands in for an MCP server on stdio: what comes in on stdin goes to a Unix socket, and the test process at its other
//! end says what to print and when to exit.
//!
//! To the socket: one line of JSON (pid, arguments, directory, environment), then stdin as it is. From the socket: frames of one
//! byte (`o` stdout, `e` stderr, `x` exit with the code in the payload), four bytes of length, payload.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

fn main() {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: testkit-relay SOCKET [ignored arguments]");
        std::process::exit(2);
    };
    let code = match UnixStream::connect(&path).and_then(run) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("testkit-relay: {path}: {error}");
            1
        }
    };
    std::process::exit(code);
}

fn run(mut socket: UnixStream) -> io::Result<i32> {
    socket.write_all(hello().as_bytes())?;
    let mut upward = socket.try_clone()?;
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut upward);
        let _ = upward.shutdown(Shutdown::Write);
    });
    let mut head = [0; 5];
    loop {
        match socket.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
            other => other?,
        }
        let mut payload = vec![0; u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize];
        socket.read_exact(&mut payload)?;
        match head[0] {
            b'o' => print(io::stdout(), &payload)?,
            b'e' => print(io::stderr(), &payload)?,
            _ => return Ok(payload.first().copied().unwrap_or_default().into()),
        }
    }
}

fn print(mut to: impl Write, payload: &[u8]) -> io::Result<()> {
    to.write_all(payload)?;
    to.flush()
}

fn hello() -> String {
    let environment: serde_json::Map<String, serde_json::Value> = std::env::vars_os()
        .map(|(k, v)| (k.to_string_lossy().into_owned(), v.to_string_lossy().into_owned().into()))
        .collect();
    let hello = serde_json::json!({
        "pid": std::process::id(),
        "args": std::env::args().skip(2).collect::<Vec<_>>(),
        "cwd": std::env::current_dir().unwrap_or_default(),
        "env": environment,
    });
    format!("{hello}\n")
}
